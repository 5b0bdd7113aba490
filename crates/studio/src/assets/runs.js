// Runs: the list and the curves, as they grow.
'use strict';
(() => {
  const list = document.getElementById('runs'), live = document.getElementById('live');
  const later = (work, ms) => studio.once(async () => { await work(); await new Promise(resolve => setTimeout(resolve, ms)); });

  if (list) {
    const load = later(async () => {
      const text = await studio.quietly(studio.get('/runs/list'));
      if (text === undefined) return;
      const chosen = [...list.querySelectorAll('input:checked')].map(box => box.value);
      const focus = document.activeElement, tag = focus?.tagName, focused = focus?.closest('tr')?.dataset.run;
      list.innerHTML = text;
      for (const box of list.querySelectorAll('input[name=r]')) box.checked = chosen.includes(box.value);
      if (focused) [...list.querySelectorAll('tr')].find(row => row.dataset.run === focused)?.querySelector(tag)?.focus({ preventScroll: true });
    }, 1000);
    studio.on('runs', load);
    studio.on('run', load);
    list.addEventListener('submit', event => { if (!list.querySelector('input:checked')) { event.preventDefault(); studio.say('choose a run, or several'); } });
    const links = () => [...list.querySelectorAll('a.run')];
    const move = by => { const all = links(), at = all.indexOf(document.activeElement?.closest('tr')?.querySelector('a.run')); all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus(); };
    studio.keys({ 'j': () => move(1), 'k': () => move(-1), 'c': () => document.getElementById('choose')?.requestSubmit(), 'n': () => document.getElementById('to-new')?.click() });
  }

  if (live) {
    const names = new URLSearchParams(live.dataset.query).getAll('r'), states = document.getElementById('states');
    const fill = async into => {
      const text = await studio.quietly(studio.get('/runs/curves', { r: names, part: into.dataset.part }));
      if (text !== undefined) into.innerHTML = text;
    };
    const folds = [...live.querySelectorAll('details')];
    for (const fold of folds) fold.addEventListener('toggle', () => { if (fold.open) fill(fold.querySelector('.charts')); });
    const load = later(async () => {
      await fill(document.getElementById('first-curves'));
      for (const fold of folds.filter(fold => fold.open)) await fill(fold.querySelector('.charts'));
      const text = await studio.quietly(studio.get('/runs/state', { r: names }));
      if (text === undefined) return;
      const open = [...states.querySelectorAll('.run-state')].filter(one => one.querySelector('details[open]')).map(one => one.dataset.run);
      const focused = document.activeElement?.dataset?.do;
      states.innerHTML = text;
      for (const one of states.querySelectorAll('.run-state')) if (open.includes(one.dataset.run)) one.querySelector('details')?.setAttribute('open', '');
      if (focused) states.querySelector(`[data-do=${focused}]`)?.focus({ preventScroll: true });
    }, 1000);
    load();
    studio.on('run', event => { if (names.includes(event.run)) load(); });
    studio.on('ended', event => { if (names.includes(event.run)) { if (!event.done && event.said) studio.say(event.said, true); load(); } });
    states.addEventListener('click', async event => {
      const what = event.target.dataset?.do, run = event.target.closest('.run-state')?.dataset.run;
      if (!what || !run) return;
      event.target.disabled = true;
      const done = await studio.quietly(studio.post(`/runs/${what}`, { r: run }));
      if (done) studio.say(what === 'stop' ? 'it finishes its step and saves' : 'it goes on');
      load();
    });
    const branch = document.getElementById('branch');
    branch?.addEventListener('submit', async event => {
      event.preventDefault();
      const set = branch.elements.values.value.split('\n').map(line => line.trim()).filter(line => line);
      const begun = await studio.quietly(studio.post('/runs/branch', { r: branch.dataset.run, name: branch.elements.name.value, set }));
      if (!begun) return;
      // The run directory appears once the program has read the checkpoint.
      studio.say('starting');
      const show = () => studio.get('/runs/state', { r: begun.run }).then(() => location.assign(`/runs/show?${studio.words({ r: begun.run })}`)).catch(() => {});
      studio.on('runs', show);
      studio.on('ended', event => { if (event.run === begun.run) { if (event.done) show(); else studio.say(event.said || 'it ended', true); } });
    });
  }
})();
