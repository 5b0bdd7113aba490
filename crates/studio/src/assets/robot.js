// A robot: what its session shows, as it comes, and what a person wants of it. HOLD goes out before everything else.
'use strict';
(() => {
  const root = document.getElementById('robot');
  if (!root) return;
  const find = id => document.getElementById(id), s = root.dataset.session, mayMove = !('still' in root.dataset);
  const held = find('held'), goOn = find('go-on'), holdButton = find('hold'), begin = find('begin');

  // A hold that waits behind images is none: it goes out at once, and again until somebody says that the arm holds.
  let holding = false;
  const hold = async () => {
    if (holding) return;
    holding = true;
    holdButton.classList.add('pressed');
    const who = s ? { s } : { robot: begin.elements.robot.value };
    for (let tries = 0; tries < 3; tries++) {
      const asked = new AbortController(), late = setTimeout(() => asked.abort(), 4000);
      try {
        const response = await fetch('/robot/hold', { method: 'POST', body: studio.words(who), keepalive: true, priority: 'high', signal: asked.signal });
        const text = await response.text();
        if (response.ok) { studio.say(`the arm holds, says ${JSON.parse(text).by}`); break; }
        studio.say(text.trim(), true);
        if (response.status === 409) break;
      } catch { studio.say('PRESS THE E-STOP: the studio does not answer', true); } finally { clearTimeout(late); }
    }
    holding = false;
    holdButton.classList.remove('pressed');
    look?.();
  };
  let look;
  holdButton.addEventListener('click', hold);
  // The space bar holds whatever has the focus, but for the form of a session that has not begun.
  const isHold = event => event.key === ' ' && !event.target.closest?.('#begin, dialog') && (s || event.target === document.body);
  addEventListener('keydown', event => { if (isHold(event)) { event.preventDefault(); event.stopPropagation(); if (!event.repeat) hold(); } }, true);
  addEventListener('keyup', event => { if (isHold(event)) { event.preventDefault(); event.stopPropagation(); } }, true);

  if (begin) {
    begin.addEventListener('submit', async event => {
      event.preventDefault();
      const { robot, model, name, set } = begin.elements;
      const words = set.value.split(';').map(word => word.trim()).filter(Boolean);
      const started = await studio.quietly(studio.post('/robot/begin', { robot: robot.value, model: model.value, name: name.value, set: words }));
      if (started) location.assign(`/robot?${studio.words({ s: started.session })}`);
    });
    return;
  }

  const number = (value, digits) => value.toFixed(digits).replace('-', '−');
  const element = (name, text, className) => { const made = document.createElement(name); if (text !== undefined) made.textContent = text; if (className) made.className = className; return made; };
  const rows = (body, all) => body.replaceChildren(...all.map(cells => { const row = element('tr'); row.append(...cells.map((cell, at) => element(at ? 'td' : 'th', cell))); return row; }));
  const wish = (what, values = {}) => studio.quietly(studio.post(`/robot/${what}`, { s, ...values }));
  const lag = () => { try { return localStorage.getItem('lag') || 0; } catch { return 0; } };

  const label = as => wish('label', { as, lag: lag() });
  const end = as => wish('end', { as });
  root.addEventListener('click', async event => {
    const button = event.target.closest('button');
    if (button?.dataset.label) label(button.dataset.label);
    else if (button?.dataset.end) end(button.dataset.end);
    else if (button?.dataset.do === 'quit') { if (confirm('The arm holds, and the session ends. End it?')) wish('quit'); }
    else if (button?.dataset.do) wish(button.dataset.do);
    else return;
    look();
  });
  if (mayMove) {
    studio.keys({
      n: () => wish('start').then(look), c: () => label('success').then(look), a: () => label('failure').then(look), b: () => label('off').then(look),
      u: () => wish('undo').then(look), C: () => end('success').then(look), A: () => end('failure').then(look), X: () => end('discard').then(look),
    });
  }
  goOn.addEventListener('submit', async event => {
    event.preventDefault();
    if (await wish('go_on', { word: goOn.elements.word.value })) goOn.elements.word.value = '';
    document.activeElement?.blur();
    look();
  });

  // Cameras: one image at a time, so that no wish waits behind several.
  const cameras = find('cameras');
  let shownCameras = '';
  const showCameras = names => {
    if (names.join() === shownCameras) return;
    shownCameras = names.join();
    cameras.replaceChildren(...names.map(name => { const figure = element('figure'), image = element('img'); image.alt = `camera ${name}`; image.hidden = true; figure.append(image, element('figcaption', name)); return figure; }));
  };
  const pause = time => new Promise(done => setTimeout(done, time));
  (async () => {
    for (;;) {
      const images = [...cameras.querySelectorAll('img')];
      for (const [camera, image] of images.entries()) {
        if (document.hidden) break;
        try {
          const response = await fetch(`/robot/frame?${studio.words({ s, camera })}`);
          if (!response.ok) { if (state?.alive === false) return; continue; }
          const url = URL.createObjectURL(await response.blob()), before = image.src;
          image.src = url;
          image.hidden = false;
          await image.decode().catch(() => {});
          if (before) URL.revokeObjectURL(before);
        } catch { /* the studio is gone, which the other loop says */ }
      }
      await pause(images.length ? 70 : 300);
    }
  })();

  // The curve: the last thirty seconds.
  const SECONDS = 30, svg = find('curve'), scores = [];
  const draw = now => {
    const make = (name, attributes) => { const made = document.createElementNS('http://www.w3.org/2000/svg', name); for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value); return made; };
    const x = t => 600 * (1 - (now - t) / SECONDS), y = p => 195 - 190 * p;
    while (scores.length && scores[0][0] < now - SECONDS) scores.shift();
    const lines = [];
    let path = '', episode;
    for (const [t, p, of] of scores) { path += `${of === episode ? 'L' : 'M'}${x(t).toFixed(1)} ${y(p).toFixed(1)}`; episode = of; }
    const level = state.model?.threshold ?? state.rule?.[0];
    if (level !== undefined && level !== null) lines.push(make('line', { class: 'threshold', x1: 0, x2: 600, y1: y(level), y2: y(level) }));
    if (path) lines.push(make('path', { class: 'score', d: path }));
    svg.replaceChildren(make('line', { class: 'edge', x1: 0, x2: 600, y1: y(0), y2: y(0) }), make('line', { class: 'edge', x1: 0, x2: 600, y1: y(1), y2: y(1) }), ...lines);
  };

  const PHASES = { begins: 'the arm, its cameras and the model are looked for', asks: 'asks whether the arm may move', ready: 'ready: the next episode waits for you', to_start: 'the arm goes to its start', episode: 'an episode', writing: 'it is written', ended: 'ended' };
  const ENDS = { success: 'success', failure: 'failure', discard: 'discarded' };
  let state, since = 0;

  const showQuestion = ({ question, simulated }) => {
    const box = find('question');
    if (box.dataset.number === String(question?.number ?? '')) return;
    box.dataset.number = question?.number ?? '';
    box.hidden = !question;
    if (!question) { box.replaceChildren(); return; }
    const form = element('form', undefined, 'row'), input = element('input'), name = element('label', 'Is its box clear, and the e-stop in your hand? Type arm to let it move. ');
    input.autocomplete = 'off';
    input.size = 6;
    name.append(input);
    form.append(name, element('button', 'Let it move', 'main'));
    form.addEventListener('submit', event => { event.preventDefault(); wish('agree', { number: question.number, word: input.value }).then(look); });
    box.replaceChildren(element('p', `${question.why}. The robot at ${state.server} will move.`), form);
    form.hidden = !mayMove || simulated;
  };

  const showEpisode = ({ phase, episode, kept, recording, episodes }) => {
    find('episode').textContent = episode ? `${episode.number + 1}: step ${episode.steps}, ${number(episode.seconds, 1)} s${episode.at_target ? ', at its target' : ''}` : PHASES[phase];
    find('recording').textContent = `${kept[0]} successes and ${kept[1]} failures recorded in ${recording || '…'}`;
    const labels = phase === 'episode' && mayMoveOrLabel;
    for (const button of root.querySelectorAll('[data-label], [data-end], [data-do=undo]')) button.disabled = !labels;
    root.querySelector('[data-do=start]').disabled = !(phase === 'ready' && !state.held && mayMove);
    for (const button of root.querySelectorAll('[data-label]')) button.setAttribute('aria-pressed', String(phase === 'episode' && button.dataset.label === (episode?.label ?? 'off')));
    const timeline = find('timeline'), spans = episode?.spans ?? [], length = Math.max(1, (episode?.steps ?? 0) + 1);
    timeline.replaceChildren(...spans.map(([from, to, answer]) => { const part = element('i', undefined, answer); part.style.left = `${100 * from / length}%`; part.style.width = `${100 * (to - from) / length}%`; return part; }));
    timeline.setAttribute('aria-label', `labels of this episode: ${spans.map(([from, to, answer]) => `${answer} ${from} to ${to - 1}`).join(', ') || 'none'}`);
    rows(find('episodes').tBodies[0], episodes.slice(-20).reverse().map(one => [one.number + 1, one.end ? ENDS[one.end] : 'broken off', one.steps, `${number(one.seconds, 1)} s`,
      one.probability === null ? '–' : `${number(one.probability, 3)}${one.model_success ? ', success' : ''}`, one.spans.map(([from, to, answer]) => `${answer} ${from}–${to - 1}`).join(', ') || '–']));
  };

  const showArm = ({ arm, arm_age_ms: age, guard }) => {
    const mode = find('mode');
    mode.textContent = state.held ? 'held' : guard.mode === 'armed' && guard.holding ? 'holds' : guard.mode;
    mode.className = `chip ${state.held || guard.mode === 'needs a person' || guard.mode === 'reflex' ? 'bad' : guard.mode === 'armed' ? 'good' : ''}`;
    mode.title = guard.why;
    if (!arm) return;
    const size = vector => Math.hypot(...vector), list = (values, digits) => values.map(value => number(value, digits)).join('  ');
    rows(find('arm').tBodies[0], [
      ['position', `${list(arm.pose.slice(0, 3).map(value => 1000 * value), 1)} mm`], ['roll, pitch, yaw', `${list(arm.pose.slice(3).map(value => 180 / Math.PI * value), 1)} °`],
      ['speed', `${number(1000 * arm.speed_m_s, 1)} mm/s`], ['gripper', arm.gripper_open === null ? 'none' : `${number(100 * arm.gripper_open, 0)} % open`],
      ['force', `${number(size(arm.force_n), 1)} of ${number(arm.most_force_n, 0)} N  (${list(arm.force_n, 1)})`], ['torque', `${number(size(arm.torque_nm), 2)} of ${number(arm.most_torque_nm, 0)} Nm`],
      ['joints', `${list(arm.joints_rad.map(value => 180 / Math.PI * value), 0)} °`], ['box', arm.in_box ? 'inside' : 'OUTSIDE'],
      ['guard', guard.why || (state.held ? `held: ${state.held}` : guard.mode)], ['seen', `${age} ms ago`],
    ]);
  };

  const mayMoveOrLabel = !studio.readOnly;
  const show = () => {
    root.dataset.phase = state.phase;
    root.dataset.held = state.held ? 'yes' : 'no';
    root.dataset.scores = since;
    held.hidden = !state.held;
    find('why').textContent = state.held ? `${state.held}. It stays so until you let it go on.` : '';
    find('word-label').hidden = state.simulated;
    goOn.hidden = !mayMove;
    const facts = [[state.robot, state.simulated ? 'simulated' : state.server ?? ''], ['', PHASES[state.phase]], ['loop', `${number(state.rate_hz, 1)} Hz`]];
    find('facts').replaceChildren(...facts.map(([name, text]) => { const item = element('li'); if (name) item.append(element('b', name), ' '); item.append(text); return item; }));
    showCameras(state.cameras.map(camera => camera.name));
    showQuestion(state);
    showEpisode(state);
    showArm(state);
    const model = state.model;
    find('probability').textContent = model && state.model_age_ms < 1500 ? number(model.probability, 3) : '';
    find('rule').textContent = model ? `threshold ${number(model.threshold, 3)}; above it for ${model.streak} frames in a row, a success takes ${model.hold}${model.is_success ? ': success, says the model' : ''}; ${number(model.took_ms, 0)} ms a frame`
      : state.rule ? `threshold ${number(state.rule[0], 3)}, ${state.rule[1]} frames; scores come with an episode` : state.phase === 'begins' ? '' : 'no reward model: choose one when you connect';
    find('notices').replaceChildren(...state.notices.map(([at, text]) => element('li', `${number(at, 1)} s: ${text}`)));
    draw(state.seconds);
  };

  // Every look says that somebody is there; a hidden page looks at nothing, and its arm is held.
  look = studio.once(async () => {
    try {
      const seen = await studio.get('/robot/look', { s, since, watches: document.hidden ? undefined : 1 });
      if (!seen.alive) {
        state = { ...state, alive: false };
        root.dataset.phase = 'gone';
        find('facts').replaceChildren(element('li', `This session has ended, and the arm holds. ${seen.said}`));
        for (const button of root.querySelectorAll('button:not(#hold)')) button.disabled = true;
        return;
      }
      if (seen.begins) { root.dataset.phase = 'begins'; find('facts').replaceChildren(element('li', PHASES.begins)); return; }
      state = seen;
      scores.push(...seen.scores);
      since = seen.next;
      show();
    } catch (error) {
      root.dataset.phase = 'lost';
      find('facts').replaceChildren(element('li', `${error.message}. The session holds the arm when nobody looks.`, 'wrong'));
    }
  });
  (async () => { for (;;) { await look(); if (state?.alive === false) return; await pause(document.hidden ? 1000 : 150); } })();
})();
