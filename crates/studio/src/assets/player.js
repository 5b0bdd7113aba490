// All cameras of an episode in step. Frames come in strips, several at a time; some strips are kept, and the next ones fetched early.
'use strict';
class Player {
  constructor(root) {
    this.root = root;
    Object.assign(this, JSON.parse(root.dataset.episode)); // d, i, s, length, fps, cameras
    this.at = 0;
    this.speed = 1;
    this.playing = false;
    this.strips = new Map();
    this.listeners = [];
    this.canvases = [...root.querySelectorAll('canvas')];
    this.slider = root.querySelector('.controls input[type=range]');
    this.output = root.querySelector('.controls output');
    this.button = root.querySelector('.play');
    this.speeds = root.querySelector('.speed');
    this.button.addEventListener('click', () => this.toggle());
    this.slider.addEventListener('input', () => { this.stop(); this.show(+this.slider.value); });
    this.speeds.addEventListener('change', () => { this.speed = +this.speeds.value; });
    root.querySelector('.step-back').addEventListener('click', () => this.step(-1));
    root.querySelector('.step-on').addEventListener('click', () => this.step(1));
    studio.keys({
      ' ': () => this.toggle(), 'ArrowRight': () => this.step(1), 'ArrowLeft': () => this.step(-1),
      'Shift+ArrowRight': () => this.step(10), 'Shift+ArrowLeft': () => this.step(-10),
      'Home': () => this.step(-this.length), 'End': () => this.step(this.length),
      '.': () => this.faster(1), ',': () => this.faster(-1),
    });
    const asked = /^#frame=(\d+)$/.exec(location.hash);
    this.show(asked ? +asked[1] : 0);
  }

  onFrame(listener) { this.listeners.push(listener); listener(this.at); }
  step(by) { this.stop(); this.show(this.at + by); }
  faster(by) {
    const options = [...this.speeds.options], next = options[this.speeds.selectedIndex + by];
    if (next) { next.selected = true; this.speed = +next.value; studio.say(`speed ${next.textContent}`); }
  }
  toggle() { this.playing ? this.stop() : this.play(); }
  stop() { this.playing = false; this.button.textContent = 'Play'; this.button.setAttribute('aria-pressed', 'false'); }

  play() {
    if (this.at >= this.length - 1) this.show(0);
    this.playing = true;
    this.button.textContent = 'Pause';
    this.button.setAttribute('aria-pressed', 'true');
    let last = performance.now(), ahead = 0;
    const tick = now => {
      if (!this.playing) return;
      // Nobody wants the frames of a minute in a hidden tab at once.
      ahead += Math.min(now - last, 250) / 1000 * this.fps * this.speed;
      last = now;
      const by = Math.floor(ahead);
      // Frames that are not there yet are waited for: a film that skips is no evidence.
      if (by > 0 && this.isReady(Math.min(this.at + by, this.length - 1))) { ahead -= by; this.show(this.at + by); }
      else ahead = Math.min(ahead, 1.99);
      if (this.at >= this.length - 1) { this.stop(); return; }
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  key(camera, at) { return `${camera} ${Math.floor(at / this.cameras[camera].chunk)}`; }
  isReady(at) { return this.cameras.every((_, camera) => this.strips.get(this.key(camera, at))?.image); }

  fetch(camera, at) {
    const { name, chunk } = this.cameras[camera], key = this.key(camera, at);
    let strip = this.strips.get(key);
    if (strip) { this.strips.delete(key); this.strips.set(key, strip); return strip; }
    const from = Math.floor(at / chunk) * chunk;
    strip = { from };
    strip.loaded = fetch(`/episode/strip?${studio.words({ d: this.d, i: this.i, s: this.s, camera: name, from, count: chunk })}`)
      .then(async response => { if (!response.ok) throw new Error((await response.text()).trim()); return createImageBitmap(await response.blob()); })
      .then(image => { strip.image = image; })
      .catch(error => { strip.error = error.message; this.strips.delete(key); studio.say(error.message, true); });
    this.strips.set(key, strip);
    const most = 24 * this.cameras.length;
    for (const [old, { image }] of this.strips) {
      if (this.strips.size <= most) break;
      if (old !== key) { image?.close(); this.strips.delete(old); }
    }
    return strip;
  }

  show(at) {
    this.at = Math.max(0, Math.min(this.length - 1, at));
    this.slider.value = this.at;
    this.output.textContent = `frame ${this.at} of ${this.length}`;
    this.slider.setAttribute('aria-valuetext', this.output.textContent);
    this.cameras.forEach((_, camera) => this.draw(camera));
    for (const listener of this.listeners) listener(this.at);
  }

  async draw(camera) {
    const at = this.at, { width, height, chunk } = this.cameras[camera], strip = this.fetch(camera, at);
    if (!strip.image) {
      await strip.loaded;
      if (this.at !== at || !strip.image) return;
    }
    this.canvases[camera].getContext('2d').drawImage(strip.image, (at - strip.from) * width, 0, width, height, 0, 0, width, height);
    this.root.dataset.shown = at;
    for (const ahead of [1, 2]) if (at + ahead * chunk < this.length) this.fetch(camera, at + ahead * chunk);
  }
}

// Playheads and clicks of the charts below a player.
class Curves {
  constructor(player, panel) {
    this.player = player;
    this.panel = panel;
    player.onFrame(at => this.mark(at));
    panel.addEventListener('click', event => {
      const field = event.target.closest('.field');
      if (!field) return;
      const [x0, x1] = field.dataset.x.split(' ').map(Number), box = field.getBoundingClientRect();
      player.stop();
      player.show(Math.round(x0 + (event.clientX - box.left) / box.width * (x1 - x0)));
    });
  }

  mark(at) {
    for (const field of this.panel.querySelectorAll('.field')) {
      const [x0, x1] = field.dataset.x.split(' ').map(Number), head = field.querySelector('.playhead');
      const share = x1 > x0 ? (at - x0) / (x1 - x0) : 0;
      if (head) { head.style.left = `${100 * Math.max(0, Math.min(1, share))}%`; head.hidden = share < 0 || share > 1; }
    }
  }

  async load(into, kind, values = {}) {
    const { d, i, s } = this.player;
    const text = await studio.quietly(studio.get('/episode/curves', { d, i, s, kind, ...values }));
    if (text !== undefined) { into.innerHTML = text; this.mark(this.player.at); }
  }
}
