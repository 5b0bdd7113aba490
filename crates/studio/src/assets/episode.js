// One episode: the player, the curves below it, and what reward models say.
'use strict';
(() => {
  const player = window.player = new Player(document.querySelector('.player'));
  const panel = document.getElementById('panels'), curves = new Curves(player, panel);
  const { d, i, s } = player;
  const boxes = [...document.querySelectorAll('.models input')], rewards = document.getElementById('reward-curves');
  const chosen = () => boxes.filter(box => box.checked).map(box => box.value);
  const remembered = () => { try { return JSON.parse(localStorage.getItem('models')) || []; } catch { return []; } };
  const zoom = { from: undefined, to: undefined };
  const loadRewards = studio.once(() => curves.load(rewards, 'reward', { m: chosen(), ...zoom }));

  const mine = event => event.d === d && event.i === i && event.s === s;
  const bar = name => boxes.find(box => box.value === name)?.parentElement.querySelector('progress');
  const ask = async name => {
    const progress = bar(name);
    if (progress) { progress.hidden = false; progress.removeAttribute('value'); }
    const told = await studio.quietly(studio.post('/episode/score', { d, i, s, m: name }));
    if (told?.done) { if (progress) progress.hidden = true; loadRewards(); }
  };
  for (const box of boxes) {
    box.checked = box.checked || remembered().includes(box.value);
    box.addEventListener('change', () => {
      try { localStorage.setItem('models', JSON.stringify(chosen())); } catch { /* a browser that keeps nothing */ }
      box.checked ? ask(box.value) : loadRewards();
    });
    if (box.checked) ask(box.value);
  }
  studio.on('scoring', event => { if (mine(event)) { const progress = bar(event.model); if (progress) { progress.hidden = false; progress.max = event.of; progress.value = event.frames; } } });
  studio.on('scored', event => {
    if (!mine(event)) return;
    const progress = bar(event.model);
    if (progress) progress.hidden = true;
    if (event.error) studio.say(`${event.model}: ${event.error}`, true);
    loadRewards();
  });
  loadRewards();

  const folds = [...document.querySelectorAll('#panels details[data-kind]')];
  const fill = fold => curves.load(fold.querySelector('.charts'), fold.dataset.kind, zoom);
  for (const fold of folds) fold.addEventListener('toggle', () => { if (fold.open && !fold.dataset.filled) { fold.dataset.filled = 1; fill(fold); } });

  // Zoom: the part around the frame that is shown.
  const look = by => {
    const from = zoom.from ?? 0, to = zoom.to ?? player.length, width = Math.max(8, Math.round((to - from) * by));
    if (width >= player.length) zoom.from = zoom.to = undefined;
    else { zoom.from = Math.max(0, Math.min(player.length - width, Math.round(player.at - width / 2))); zoom.to = zoom.from + width; }
    document.getElementById('zoom-all').disabled = zoom.from === undefined;
    loadRewards();
    folds.filter(fold => fold.open).forEach(fill);
  };
  document.getElementById('zoom-in').addEventListener('click', () => look(0.5));
  document.getElementById('zoom-all').addEventListener('click', () => look(Infinity));

  const clip = document.getElementById('clip');
  clip?.addEventListener('click', () => {
    const from = zoom.from ?? 0, to = zoom.to ?? player.length;
    studio.say('drawing the clip');
    location.assign(`/episode/clip?${studio.words({ d, i, s, from, to, fps: player.fps * player.speed, m: chosen() })}`);
  });
  const follow = rel => document.querySelector(`a[rel=${rel}]`)?.click();
  studio.keys({ 'n': () => follow('next'), 'p': () => follow('prev'), '+': () => look(0.5), '-': () => look(2), '0': () => look(Infinity), 'l': () => document.getElementById('to-label')?.click() });
})();
