// Starting a run: values that differ from the recipe's are checked as they are written.
'use strict';
(() => {
  const form = document.getElementById('new-run');
  if (!form) return;
  const findings = document.getElementById('findings'), button = document.getElementById('start'), find = document.getElementById('find-key');
  const fields = [...form.querySelectorAll('[data-was]')];
  const changed = () => fields.filter(field => field.value !== field.dataset.was).map(field => `${field.name}=${field.value}`);
  const check = studio.once(async () => {
    const found = await studio.quietly(studio.post('/runs/check', { recipe: form.dataset.recipe, set: changed() }));
    if (!found) { button.disabled = true; return; }
    findings.innerHTML = found.html;
    button.disabled = !found.can_start;
  });
  let waiting = 0;
  form.addEventListener('input', event => {
    if (!event.target.matches('[data-was]')) return;
    event.target.closest('label').classList.toggle('changed', event.target.value !== event.target.dataset.was);
    button.disabled = true;
    clearTimeout(waiting);
    waiting = setTimeout(check, 300);
  });
  find.addEventListener('input', () => {
    const words = find.value.trim().toLowerCase();
    for (const row of form.querySelectorAll('.field-row')) row.hidden = words !== '' && !row.textContent.toLowerCase().includes(words);
    for (const fold of form.querySelectorAll('details')) { const some = fold.querySelector('.field-row:not([hidden])'); fold.hidden = !some; fold.open = words !== '' && !!some; }
  });
  find.addEventListener('keydown', event => { if (event.key === 'Enter') event.preventDefault(); });
  form.addEventListener('submit', async event => {
    event.preventDefault();
    button.disabled = true;
    const started = await studio.quietly(studio.post('/runs/start', { recipe: form.dataset.recipe, name: form.elements.name.value, set: changed() }));
    if (!started) { button.disabled = false; return; }
    // The run directory appears once the program has read its data.
    studio.say('starting');
    const show = () => studio.get('/runs/state', { r: started.run }).then(() => location.assign(`/runs/show?${studio.words({ r: started.run })}`)).catch(() => {});
    studio.on('runs', show);
    studio.on('ended', event => { if (event.run === started.run) { if (event.done) show(); else { studio.say(event.said || 'it ended', true); findings.insertAdjacentText('beforeend', event.said || ''); button.disabled = false; } } });
  });
  check();
})();
