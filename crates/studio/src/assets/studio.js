// What every page uses: messages, forms that are sent, events of the server, keys.
'use strict';
window.studio = (() => {
  const status = document.getElementById('status');
  let hidden = 0;
  const say = (text, bad = false) => {
    status.textContent = text;
    status.classList.toggle('bad', bad);
    status.classList.add('on');
    clearTimeout(hidden);
    hidden = setTimeout(() => status.classList.remove('on'), bad ? 8000 : 3000);
  };

  const words = values => new URLSearchParams(Object.entries(values).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : Array.isArray(value) ? value.map(one => [name, one]) : [[name, value]]));
  const reply = async response => {
    if (!response.ok) throw new Error((await response.text()).trim() || response.statusText);
    return (response.headers.get('content-type') || '').startsWith('application/json') ? response.json() : response.text();
  };
  const get = async (path, values = {}) => reply(await fetch(`${path}?${words(values)}`));
  const post = async (path, values = {}) => reply(await fetch(path, { method: 'POST', body: words(values) }));
  // As they are, with what went wrong said instead of thrown.
  const quietly = promise => promise.catch(error => { say(error.message, true); });

  const listeners = new Map();
  let source;
  const on = (kind, listener) => {
    source ??= new EventSource('/events');
    if (!listeners.has(kind)) {
      listeners.set(kind, []);
      source.addEventListener(kind, event => listeners.get(kind).forEach(one => one(JSON.parse(event.data))));
    }
    listeners.get(kind).push(listener);
  };
  addEventListener('pagehide', () => source?.close());

  // Keys do nothing while somebody writes, or while a dialog is open.
  const isBusy = event => event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')
    || event.target.matches?.('input:not([type=range]):not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]');
  const keys = actions => document.addEventListener('keydown', event => {
    const name = (event.shiftKey && event.key.length > 1 ? 'Shift+' : '') + event.key;
    if (isBusy(event) || !(name in actions)) return;
    if (event.key === ' ' && event.target.matches?.('button, a, summary')) return;
    if (event.key.startsWith('Arrow') && event.target.matches?.('input[type=range]')) event.target.blur();
    event.preventDefault();
    actions[name](event);
  });

  const dialog = document.getElementById('keys');
  document.getElementById('show-keys').addEventListener('click', () => dialog.showModal());
  keys({ '?': () => dialog.showModal() });

  // Calls that come while one runs become one more call after it.
  const once = work => {
    let running = false, again = false;
    const run = async () => {
      if (running) { again = true; return; }
      running = true;
      try { await work(); } finally { running = false; }
      if (again) { again = false; run(); }
    };
    return run;
  };
  return { say, get, post, quietly, on, keys, words, once, readOnly: 'readOnly' in document.documentElement.dataset };
})();
