// Looks at a page from inside, wide and narrow, light and dark, and reports what is wrong to the page that shows it.
(() => {
  const wrong = [];
  addEventListener('error', event => wrong.push(`script: ${event.message}`));
  addEventListener('unhandledrejection', event => wrong.push(`promise: ${event.reason}`));
  const named = element => (element.closest('figure')?.querySelector('.name')?.textContent || element.textContent).trim().slice(0, 60);

  const fits = () => {
    const page = document.documentElement;
    if (page.scrollWidth > innerWidth) {
      const widest = [...document.querySelectorAll('body *')].find(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.wide, pre, svg'));
      wrong.push(`${page.scrollWidth} pixels wide on a screen of ${innerWidth}: ${widest?.className || widest?.tagName}`);
    }
  };

  const charts = () => {
    for (const chart of document.querySelectorAll('.chart')) {
      for (const axis of ['.xs', '.ys']) {
        if (chart.querySelectorAll(`${axis} .tick`).length < 2) wrong.push(`no ticks along ${axis}: ${named(chart)}`);
      }
      if (!chart.querySelector('figcaption')?.textContent.trim()) wrong.push(`no caption: ${named(chart)}`);
      if (!chart.querySelector('svg[role=img]')?.getAttribute('aria-label')) wrong.push(`nothing to read aloud: ${named(chart)}`);
      if (chart.querySelector('.field').clientWidth < 0.4 * chart.clientWidth) wrong.push(`hardly any room for lines: ${named(chart)}`);
    }
    for (const words of document.querySelectorAll('.legend li, .end, .tick')) {
      const box = words.getBoundingClientRect();
      if (box.width === 0) continue;
      if (words.scrollWidth > words.clientWidth + 1 || box.right > innerWidth + 1 || box.left < -1) wrong.push(`cut off: ${words.textContent} in ${named(words)}`);
      if (parseFloat(getComputedStyle(words).fontSize) < 11) wrong.push(`too small to read: ${words.textContent}`);
    }
    for (const chart of document.querySelectorAll('.chart')) {
      const ends = [...chart.querySelectorAll('.end')].map(end => end.getBoundingClientRect()).sort((a, b) => a.top - b.top);
      if (ends.some((end, n) => n && end.top < ends[n - 1].bottom - 4)) wrong.push(`labels over each other: ${named(chart)}`);
    }
  };

  // What a film shows, roughly; a film that stands still looks the same everywhere.
  const shown = video => {
    const small = Object.assign(document.createElement('canvas'), { width: 32, height: 32 }).getContext('2d');
    small.drawImage(video, 0, 0, 32, 32);
    return small.getImageData(0, 0, 32, 32).data.join();
  };
  const wind = (video, secs) => new Promise(next => {
    video.addEventListener('seeked', next, { once: true });
    setTimeout(next, 20000);
    video.currentTime = secs;
  });

  const films = () => Promise.all([...document.querySelectorAll('.film video')].map(async video => {
    for (let tries = 0; tries < 600 && video.readyState < 3; tries++) await new Promise(next => setTimeout(next, 50));
    const title = video.getAttribute('aria-label');
    if (video.readyState < 3 || !(video.duration > 0.1)) wrong.push(`does not play: ${title} (${video.readyState}, ${video.duration} s, ${video.error?.message})`);
    if (Math.abs(video.duration - video.dataset.secs) > 0.1) wrong.push(`runs ${video.duration} s, not ${video.dataset.secs}: ${title}`);
    const head = video.closest('.film').querySelector('.playhead');
    video.pause();
    await wind(video, 0);
    const first = shown(video);
    await wind(video, video.duration / 2);
    if (shown(video) === first) wrong.push(`nothing moves: ${title}`);
    const at = parseFloat(head?.style.left);
    if (!(at > 20)) wrong.push(`the curve does not run in step: ${title}, ${head?.style.left}`);
  }));

  addEventListener('load', async () => {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    if ((r + g + b < 300) !== dark) wrong.push(`${dark ? 'dark' : 'light'} was asked for, and the paper is ${r}, ${g}, ${b}`);
    if (!document.querySelector('h1')?.textContent.trim()) wrong.push('no verdict');
    fits();
    document.querySelectorAll('details').forEach(fold => { fold.open = true; });
    fits();
    charts();
    await films();
    const seen = { charts: document.querySelectorAll('.chart').length, films: document.querySelectorAll('.film video').length, dark, width: innerWidth };
    parent.postMessage({ seen, wrong }, '*');
  });
})();
