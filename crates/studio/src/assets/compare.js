// Comparing: numbers that fill in while models score, and blind choices.
'use strict';
(() => {
  const result = document.getElementById('result'), blind = document.getElementById('blind');

  if (result) {
    const values = [...new URLSearchParams(result.dataset.query)].reduce((all, [name, value]) => ({ ...all, [name]: name === 'm' ? [...(all.m || []), value] : value }), {});
    const load = studio.once(async () => {
      const text = await studio.quietly(studio.get('/compare/result', values));
      if (text === undefined) return;
      const focused = document.activeElement?.closest('#result a')?.getAttribute('href');
      result.innerHTML = text;
      if (focused) [...result.querySelectorAll('a')].find(link => link.getAttribute('href') === focused)?.focus({ preventScroll: true });
      // Numbers of many episodes cost a while: they need not follow each one.
      await new Promise(resolve => setTimeout(resolve, 400));
    });
    studio.on('scored', event => { if (event.d === values.d) load(); });
    studio.quietly(studio.post('/compare/score', values)).then(load);
    const cards = () => [...result.querySelectorAll('#disagreements a')];
    const move = by => {
      const all = cards(), at = all.indexOf(document.activeElement);
      all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus();
    };
    studio.keys({ 'j': () => move(1), 'k': () => move(-1), 'b': () => document.getElementById('to-blind')?.click() });
  }

  if (blind) {
    const root = document.querySelector('.player'), player = new Player(root);
    new Curves(player, document.getElementById('panels'));
    const name = document.getElementById('annotator');
    try { name.value = localStorage.getItem('annotator') || ''; } catch { /* a browser that keeps nothing */ }
    name.addEventListener('change', () => { try { localStorage.setItem('annotator', name.value); } catch { /* the same */ } });
    const buttons = [...blind.querySelectorAll('button')];
    let sent = false;
    const say = async says => {
      if (sent) return;
      sent = true;
      const kept = await studio.quietly(studio.post('/compare/answer', { trial: blind.dataset.trial, says, by: name.value }));
      if (kept) location.assign(blind.dataset.next);
      else sent = false;
    };
    for (const button of buttons) button.addEventListener('click', () => say(button.value));
    studio.keys({ '1': () => say('first'), '2': () => say('second'), '0': () => say('tie'), 'n': () => location.assign(blind.dataset.next) });
  }
})();
