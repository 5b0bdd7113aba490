// Labels by keys. Every one is on the server's disk before it is shown here.
'use strict';
(() => {
  const player = window.player = new Player(document.querySelector('.player'));
  const { d, i, s, length } = player;
  const find = id => document.getElementById(id);
  const timeline = find('timeline'), by = find('by'), lag = find('lag'), head = timeline.querySelector('.head');
  const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing */ } };
  const remembered = name => { try { return localStorage.getItem(name); } catch { return null; } };
  by.value = remembered('by') || by.value;
  lag.value = remembered('lag') || lag.value;
  lag.addEventListener('change', () => remember('lag', lag.value));
  by.addEventListener('change', () => { remember('by', by.value.trim()); refresh(); });
  const who = () => by.value.trim() || 'me';

  const percent = at => `${100 * at / length}%`;
  const piece = (start, end, kind) => {
    const part = document.createElement('i');
    part.className = kind;
    part.style.left = percent(start);
    part.style.width = percent(end - start);
    return part;
  };
  let selection, shown = { runs: [], others: [] };
  const draw = () => {
    const others = shown.others.flatMap(other => other.runs.map(([start, end, answer]) => piece(start, end, `${answer} others`)));
    const own = shown.runs.map(([start, end, answer]) => piece(start, end, answer));
    const chosen = selection ? [piece(selection[0], selection[1], 'drag')] : [];
    timeline.replaceChildren(...own, ...others, ...chosen, head);
    const words = shown.runs.map(([start, end, answer]) => `${answer} ${start} to ${end - 1}`).join(', ');
    timeline.setAttribute('aria-label', `labels of the frames: ${words || 'none'}; drag to select`);
  };
  const show = state => {
    shown = state;
    draw();
    const many = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
    find('counts').textContent = `${many(state.labels, 'label')} in ${many(state.episodes, 'episode')} by ${who()}${state.whole ? `; this episode as a whole: ${state.whole}` : ''}`;
    find('agreement').replaceChildren(...state.agreement.map(({ one, other, frames, same, kappa }) => {
      const line = document.createElement('p');
      line.textContent = `${one} and ${other}: ${same} of ${frames} frames alike, Cohen’s kappa ${kappa === null ? 'not defined' : kappa.toFixed(2)}`;
      return line;
    }));
    document.body.dataset.labels = state.labels;
  };
  const refresh = async () => { const state = await studio.quietly(studio.get('/label/state', { d, i, s, by: who() })); if (state) show(state); };

  // One after the other, in the order in which keys were pressed.
  let queue = Promise.resolve();
  const send = (path, values) => { queue = queue.then(() => studio.quietly(studio.post(path, { d, i, s, by: who(), ...values }))).then(state => { if (state) show(state); return state; }); return queue; };
  const label = (answer, span, more = {}) => send('/label/add', { answer, ...(span ? { start: span[0], end: span[1] } : {}), ...more });

  // A tap labels the selection, or the frame that is shown, and goes on to the next; a key that is held labels while the film runs.
  const HOLD_MS = 300;
  let held;
  const begin = answer => {
    if (held) return;
    if (selection) { label(answer, selection); selection = undefined; draw(); return; }
    held = { answer, from: player.at, wasPlaying: player.playing };
    if (!player.playing) held.timer = setTimeout(() => { held.running = true; player.play(); }, HOLD_MS);
  };
  const end = () => {
    if (!held) return;
    const { answer, from, wasPlaying, running, timer } = held;
    held = undefined;
    clearTimeout(timer);
    if (running) player.stop();
    if (!running && !wasPlaying) {
      label(answer, [from, from + 1]).then(() => inQueue ? follow() : undefined);
      if (!inQueue) player.show(from + 1);
      return;
    }
    const frames = Math.round(+lag.value * player.fps * player.speed);
    label(answer, [Math.min(from, player.at), Math.max(from, player.at) + 1], { lag: frames });
  };
  const answers = { c: 'success', a: 'failure', b: 'skip' };
  const actions = { u: () => undo(), q: () => follow(), Escape: () => { selection = undefined; draw(); } };
  for (const [key, answer] of Object.entries(answers)) {
    actions[key] = event => { if (!event.repeat) begin(answer); };
    actions[key.toUpperCase()] = event => { if (!event.repeat) label(answer).then(state => { if (state) studio.say(`the whole episode: ${answer}`); }); };
  }
  studio.keys(actions);
  document.addEventListener('keyup', event => { if (answers[event.key.toLowerCase()]) end(); });
  addEventListener('blur', end);
  for (const button of document.querySelectorAll('[data-answer]')) {
    button.addEventListener('pointerdown', event => { button.setPointerCapture(event.pointerId); begin(button.dataset.answer); });
    button.addEventListener('pointerup', end);
    button.addEventListener('pointercancel', end);
    // Without a pointer: by the keyboard, or by a screen reader.
    button.addEventListener('click', event => { if (event.detail === 0) { begin(button.dataset.answer); end(); } });
  }
  const undo = async () => {
    const state = await send('/label/undo', {});
    if (!state) return;
    if (!state.undone) { studio.say('nothing is left to take back'); return; }
    studio.say(`taken back: ${state.undone.answer} in ${state.undone.i === i ? 'this episode' : state.undone.episode}`);
    if (state.undone.i === i && state.undone.at !== null) player.show(state.undone.at);
  };
  find('undo').addEventListener('click', undo);

  // The timeline: a click shows a frame, a drag selects frames.
  const frameAt = event => { const box = timeline.getBoundingClientRect(); return Math.max(0, Math.min(length - 1, Math.floor((event.clientX - box.left) / box.width * length))); };
  let from;
  timeline.addEventListener('pointerdown', event => { timeline.setPointerCapture(event.pointerId); from = frameAt(event); player.stop(); player.show(from); });
  timeline.addEventListener('pointermove', event => {
    if (from === undefined) return;
    const at = frameAt(event);
    selection = at === from && !selection ? undefined : [Math.min(from, at), Math.max(from, at) + 1];
    player.show(at);
    draw();
  });
  timeline.addEventListener('pointerup', event => { if (frameAt(event) === from) { selection = undefined; draw(); } from = undefined; });
  player.onFrame(at => { head.style.left = percent(at + 0.5); });

  // What to label next.
  const inQueue = new URLSearchParams(location.search).has('queue');
  const boxes = [...document.querySelectorAll('#rank-models input')], ranking = find('ranking'), list = find('queue');
  const chosen = () => boxes.filter(box => box.checked).map(box => box.value);
  try { const kept = JSON.parse(remembered('rank') || '[]'); boxes.forEach(box => { box.checked = kept.includes(box.value); }); } catch { /* none kept */ }
  if (boxes.length && !chosen().length) boxes[0].checked = true;
  for (const box of boxes) box.addEventListener('change', () => remember('rank', JSON.stringify(chosen())));
  const address = frame => `/label?${studio.words({ d, i: frame.i, s: 0, queue: 1 })}#frame=${frame.at}`;
  let proposed = [];
  const propose = studio.once(async () => {
    const found = await studio.quietly(studio.get('/label/next', { d, by: who(), m: chosen() }));
    if (!found) return;
    proposed = found.frames;
    ranking.max = found.of;
    ranking.value = found.scored;
    ranking.hidden = found.scored >= found.of;
    if (found.error) studio.say(found.error, true);
    list.replaceChildren(...proposed.map(frame => {
      const link = document.createElement('a'), line = document.createElement('li'), words = document.createElement('span');
      link.href = address(frame);
      if (frame.camera) {
        const image = document.createElement('img');
        image.loading = 'lazy';
        image.alt = '';
        image.src = `/episode/strip?${studio.words({ d, i: frame.i, s: 0, camera: frame.camera, from: frame.at, count: 1 })}`;
        link.append(image);
      }
      const second = frame.second === null ? '' : ` and ${frame.second.toFixed(2)}`;
      words.textContent = `${frame.episode}, frame ${frame.at}: score ${frame.score.toFixed(2)}${second}`;
      link.append(words);
      line.append(link);
      return line;
    }));
  });
  const open = frame => {
    if (!frame) { studio.say('no frame is proposed; find some first'); return; }
    if (frame.i === i && inQueue) { player.stop(); player.show(frame.at); history.replaceState(null, '', address(frame)); }
    else location.assign(address(frame));
  };
  const follow = async () => { await propose(); open(proposed[0]); };
  list?.addEventListener('click', event => {
    const at = [...list.querySelectorAll('a')].indexOf(event.target.closest('a'));
    if (at >= 0) { event.preventDefault(); open(proposed[at]); }
  });
  find('rank')?.addEventListener('click', async () => {
    if (!chosen().length) { studio.say('choose a model first'); return; }
    ranking.hidden = false;
    ranking.removeAttribute('value');
    const asked = await studio.quietly(studio.post('/label/rank', { d, m: chosen() }));
    if (asked) propose(); else ranking.hidden = true;
  });
  let last = 0;
  studio.on('scored', event => {
    if (event.d !== d || !list) return;
    if (event.done === event.all || performance.now() - last > 1000) { last = performance.now(); propose(); }
  });
  if (inQueue && chosen().length) propose();

  // What labels become.
  const result = (...lines) => find('exported').replaceChildren(...lines.map(([name, text]) => { const line = document.createElement(name); line.textContent = text; if (name === 'pre') line.tabIndex = 0; return line; }));
  for (const button of document.querySelectorAll('[data-export]')) {
    button.addEventListener('click', async () => {
      const kind = button.dataset.export, made = await studio.quietly(studio.post('/label/export', { d, kind, fps: player.fps }));
      if (!made) return;
      const next = { csv: `plaudit reward train --data ${made.data} \\\n  data.labels=${made.table}`, train: `plaudit reward train --data ${made.output}`, lerobot: `plaudit dataset inspect ${made.output}` }[kind];
      result(['p', made.done ? `written to ${made.place}` : `writing ${made.place}…`], ['pre', next]);
    });
  }
  studio.on('exported', event => {
    if (event.d !== d) return;
    const line = find('exported').querySelector('p');
    if (event.error) studio.say(event.error, true);
    if (line) line.textContent = event.error ? event.error : `written to ${event.place}: ${event.words}`;
  });

  // How late somebody presses: the screen turns green five times.
  const flash = find('flash');
  const pause = time => new Promise(done => setTimeout(done, time));
  find('measure').addEventListener('click', async () => {
    const times = [];
    flash.className = 'flash ready';
    flash.textContent = 'Press a key whenever this turns green';
    await pause(1500);
    for (let round = 0; round < 5; round++) {
      flash.className = 'flash ready';
      flash.textContent = '';
      await pause(700 + 1600 * Math.random());
      flash.className = 'flash go';
      const began = performance.now();
      const pressed = await new Promise(done => {
        const press = event => { event.preventDefault(); event.stopPropagation(); removeEventListener('keydown', press, true); removeEventListener('pointerdown', press, true); done(performance.now()); };
        addEventListener('keydown', press, true);
        addEventListener('pointerdown', press, true);
        setTimeout(press, 3000, new Event('late'));
      });
      times.push(`${began / 1000} ${pressed / 1000}`);
    }
    flash.className = 'flash';
    const found = await studio.quietly(studio.post('/label/reaction', { time: times }));
    if (found) { lag.value = found.median.toFixed(2); remember('lag', lag.value); studio.say(`you press ${found.median.toFixed(2)} s late`); }
  });

  const side = rel => document.querySelector(`a[rel=${rel}]`)?.click();
  studio.keys({ n: () => side('next'), p: () => side('prev') });
  if (studio.readOnly) for (const button of document.querySelectorAll('[data-answer], #undo')) button.disabled = true;
  refresh();
})();
