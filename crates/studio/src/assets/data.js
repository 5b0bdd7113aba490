// The list of episodes: filters that act at once, and lines that fill in while episodes are read.
'use strict';
(() => {
  const form = document.getElementById('filters'), list = document.getElementById('list');
  const load = studio.once(async () => {
    const page = new URLSearchParams(location.search).get('page') || '';
    const values = [...new FormData(form)].filter(([, value]) => value !== '');
    const text = await studio.quietly(studio.get('/data/list', Object.fromEntries([...values, ['page', page]])));
    if (text === undefined) return;
    const focused = document.activeElement?.closest('#list a')?.getAttribute('href');
    list.innerHTML = text;
    if (focused) [...list.querySelectorAll('a')].find(link => link.getAttribute('href') === focused)?.focus({ preventScroll: true });
  });
  let waiting = 0;
  const filter = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const values = [...new FormData(form)].filter(([, value]) => value !== '');
      history.replaceState(null, '', `/data?${new URLSearchParams(values)}`);
      load();
    }, 150);
  };
  form.addEventListener('input', filter);
  form.addEventListener('submit', event => { event.preventDefault(); filter(); });
  studio.on('library', () => { load(); sources(); });
  studio.on('read', load);

  const sources = studio.once(async () => {
    const text = await studio.quietly(studio.get('/data/sources', { source: form.elements.source.value }));
    if (text !== undefined) form.elements.source.innerHTML = text;
  });

  const cards = () => [...list.querySelectorAll('a.episode')];
  const move = by => {
    const all = cards(), at = all.indexOf(document.activeElement);
    all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  const view = name => { form.elements.view.value = name; filter(); };
  studio.keys({
    'j': () => move(1), 'k': () => move(-1), 'ArrowRight': () => move(1), 'ArrowLeft': () => move(-1),
    'g': () => view('grid'), 't': () => view('table'), '/': () => form.elements.q.focus(),
    'n': () => list.querySelector('a[rel=next]')?.click(), 'p': () => list.querySelector('a[rel=prev]')?.click(),
  });
})();
