// A reward model: its mistakes as it scores, what people say about them, and a model that learns from that.
'use strict';
(() => {
  const gallery = document.getElementById('mistakes');
  if (!gallery) return;
  const { m, d, n } = gallery.dataset, asked = { m, d, n };
  const by = document.getElementById('by'), button = document.getElementById('retrain'), bar = document.getElementById('training'), numbers = document.getElementById('measured');
  const remembered = name => { try { return localStorage.getItem(name); } catch { return null; } };
  if (by) { by.value = remembered('by') || by.value; by.addEventListener('change', () => { try { localStorage.setItem('by', by.value.trim()); } catch { /* a browser that keeps nothing */ } }); }
  const cards = () => [...gallery.querySelectorAll('.mistake')];
  const load = studio.once(async () => {
    const text = await studio.quietly(studio.get('/models/mistakes', asked));
    if (text === undefined) return;
    const at = cards().findIndex(card => card.contains(document.activeElement));
    gallery.innerHTML = text;
    if (at >= 0) cards()[Math.min(at, cards().length - 1)]?.querySelector('a')?.focus({ preventScroll: true });
    await new Promise(resolve => setTimeout(resolve, 400));
  });
  let after;
  const measure = studio.once(async () => {
    const text = await studio.quietly(studio.get('/models/measured', { ...asked, after }));
    if (text !== undefined) numbers.innerHTML = text;
    await new Promise(resolve => setTimeout(resolve, 400));
  });
  studio.on('scored', event => { if (event.d === d) { if (event.model === m) load(); if (after && event.model === after) measure(); } });
  studio.quietly(studio.post('/models/score', asked)).then(load);

  const act = async (card, what) => {
    if (!card) return;
    const { i, s, from, to } = card.dataset, answer = card.querySelector('[data-do=fix]')?.dataset.answer;
    const done = what === 'fix'
      ? await studio.quietly(studio.post('/label/add', { d, i, s, start: from, end: to, answer, by: by?.value.trim() || 'me' }))
      : await studio.quietly(studio.post('/models/accept', { m, d, i, s, from, to }));
    if (done) { studio.say(what === 'fix' ? `labelled: ${answer}` : 'accepted'); load(); }
  };
  gallery.addEventListener('click', event => { const what = event.target.dataset?.do; if (what) act(event.target.closest('.mistake'), what); });

  let run;
  const train = async () => {
    if (!button || button.disabled) return;
    button.disabled = true;
    const started = await studio.quietly(studio.post('/models/retrain', asked));
    if (!started) { button.disabled = false; return; }
    run = started.run;
    studio.say(`${run} learns from ${started.successes + started.failures} frames`);
    bar.hidden = false;
    bar.removeAttribute('value');
  };
  button?.addEventListener('click', train);
  studio.on('run', event => { if (event.run === run && event.steps) { bar.max = event.steps; bar.value = event.step; } });
  studio.on('ended', async event => {
    if (event.run !== run) return;
    bar.hidden = true;
    button.disabled = false;
    if (!event.done) { studio.say(event.said || 'it ended', true); numbers.textContent = `${event.said} (all it said: ${event.output})`; return; }
    after = event.run;
    numbers.textContent = 'Measuring…';
    await studio.quietly(studio.post('/models/score', { ...asked, after }));
    measure();
  });
  const move = step => { const all = cards(), at = all.findIndex(card => card.contains(document.activeElement)); all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))]?.querySelector('a')?.focus(); };
  const here = () => document.activeElement?.closest('.mistake');
  studio.keys({ 'j': () => move(1), 'k': () => move(-1), 'f': () => act(here(), 'fix'), 'a': () => act(here(), 'accept'), 'r': train });
})();
