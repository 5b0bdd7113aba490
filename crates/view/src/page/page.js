// Two extras, without which the page still works: values under the pointer, and videos that run in step with their curves.
'use strict';
(() => {
  const said = (value, unit) => unit === 'percent' ? (100 * value).toFixed(1).replace(/\.0$/, '') + ' %'
    : unit === 'whole' ? String(Math.round(value)) : unit === 'seconds' ? value.toFixed(2) + ' s' : String(+value.toPrecision(4));

  // Charts may come later than this script: each is read when the pointer first moves over it.
  const watch = field => {
    const [x0, x1, scale, xUnit] = field.dataset.x.split(' '), [y0, y1, yUnit] = field.dataset.y.split(' ');
    const log = scale === 'Log', along = x => log ? Math.log10(x) : +x;
    const xOf = p => { const v = along(x0) + p / 1000 * (along(x1) - along(x0)); return log ? 10 ** v : v; };
    const yOf = p => +y0 + (1 - p / 1000) * (y1 - y0);
    const lines = [...field.querySelectorAll('[data-name]')].map(line => ({
      name: line.dataset.name,
      points: (line.getAttribute('points') || line.getAttribute('d').slice(1, -2)).split(' ').map(p => p.split(',').map(Number)),
    }));
    const tip = document.createElement('div'), hair = document.createElement('i');
    tip.className = 'tip'; hair.className = 'hair';
    tip.hidden = hair.hidden = true;
    field.append(hair, tip);
    field.addEventListener('pointerleave', () => { tip.hidden = hair.hidden = true; });
    return event => {
      const box = field.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * 1000;
      const nearest = lines.flatMap(line => line.points.map(p => p[0])).reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a, Infinity);
      if (!Number.isFinite(nearest)) return;
      tip.hidden = hair.hidden = false;
      const rows = [`${field.parentElement.querySelector('.x-name').textContent} ${said(xOf(nearest), xUnit)}`];
      for (const line of lines) {
        const point = line.points.find(p => Math.abs(p[0] - nearest) < 0.06);
        if (point) rows.push(`${line.name ? line.name + ': ' : ''}${said(yOf(point[1]), yUnit)}`);
      }
      tip.replaceChildren(...rows.flatMap((row, n) => n ? [document.createElement('br'), row] : [row]));
      hair.style.left = nearest / 10 + '%';
      const right = nearest > 500;
      tip.style.left = right ? 'auto' : `calc(${nearest / 10}% + 8px)`;
      tip.style.right = right ? `calc(${100 - nearest / 10}% + 8px)` : 'auto';
      tip.style.top = '4px';
    };
  };
  const watched = new WeakMap();
  document.addEventListener('pointermove', event => {
    const field = event.target.closest?.('.field');
    if (!field) return;
    if (!watched.has(field)) watched.set(field, watch(field));
    watched.get(field)(event);
  });

  for (const films of document.querySelectorAll('.films')) {
    const videos = [...films.querySelectorAll('video')];
    if (!videos.length) continue;
    const bar = films.querySelector('.bar'), button = bar.querySelector('button'), slider = bar.querySelector('input');
    const heads = videos.map(video => video.closest('.film').querySelector('.playhead'));
    let playing = false, again = 0;
    const length = () => Math.max(...videos.map(video => video.duration || 0));
    const lead = () => videos.reduce((a, b) => (b.duration || 0) > (a.duration || 0) ? b : a);
    const show = () => {
      videos.forEach((video, n) => { if (heads[n] && video.duration) heads[n].style.left = Math.min(100, 100 * video.currentTime / video.dataset.secs) + '%'; });
      if (length()) slider.value = 1000 * lead().currentTime / length();
    };
    const play = () => { playing = true; button.textContent = 'Pause'; videos.forEach(video => { if (!video.ended) video.play().catch(() => {}); }); requestAnimationFrame(tick); };
    const stop = () => { playing = false; clearTimeout(again); again = 0; button.textContent = 'Play'; videos.forEach(video => video.pause()); };
    const tick = () => {
      show();
      if (!playing) return;
      if (!again && videos.every(video => video.ended)) {
        again = setTimeout(() => { again = 0; videos.forEach(video => { video.currentTime = 0; }); if (playing) play(); }, 900);
      }
      requestAnimationFrame(tick);
    };
    button.addEventListener('click', () => playing ? stop() : play());
    slider.addEventListener('input', () => { stop(); videos.forEach(video => { video.currentTime = Math.min(slider.value / 1000 * length(), video.duration || 0); }); show(); });
    videos.forEach(video => video.addEventListener('seeked', show));
    bar.hidden = false;
    videos.forEach(video => { video.controls = false; });
    // report.html#video=1.5 opens with the videos at that second, to link to it.
    const asked = /^#video=(\d+(\.\d+)?)$/.exec(location.hash);
    if (asked) videos.forEach(video => { video.currentTime = +asked[1]; });
    else if (!matchMedia('(prefers-reduced-motion: reduce)').matches) play();
  }
})();
