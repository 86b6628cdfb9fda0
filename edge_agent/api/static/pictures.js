// Live pictures: one request a camera at a time, at most two a second, only for what is on the screen.

import { Loop, askBlob } from './agent.js';
import { clockTime, say } from './words.js';
import { h } from './dom.js';

const INTERVAL_MS = 500;
const SLOWEST_MS = 8000;
const AT_A_TIME = 3; // a browser has six connections to a host: the status keeps its own

export class Pictures extends Loop {
  constructor() {
    super(100, (signal) => this.turn(signal));
    this.cameras = new Map();
    this.inFlight = 0;
    this.seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const camera = this.cameras.get(target.dataset.live);
        if (camera) camera.onScreen = isIntersecting;
      }
    }, { rootMargin: '200px' });
  }

  /** Takes over the boxes that the cards have left for pictures. */
  adopt(root, listed) {
    const boxes = new Map([...root.querySelectorAll('[data-live]')].map((box) => [box.dataset.live, box]));
    for (const [name, camera] of this.cameras) {
      if (boxes.get(name) !== camera.box) this.forget(name, camera);
    }
    for (const part of listed) {
      if (!this.cameras.has(part.name) && boxes.has(part.name)) this.add(part.name, boxes.get(part.name));
      if (this.cameras.has(part.name)) this.describe(this.cameras.get(part.name), part);
    }
  }

  add(name, box) {
    const image = h('img', { alt: '', hidden: true });
    const note = h('span', { class: 'note' });
    box.setAttribute('aria-pressed', 'false');
    box.append(image, note);
    this.cameras.set(name, {
      box, image, note, url: '', at: 0, busy: false, due: 0, failures: 0, works: false, onScreen: false,
    });
    this.seen.observe(box);
  }

  forget(name, camera) {
    this.seen.unobserve(camera.box);
    if (camera.url) URL.revokeObjectURL(camera.url);
    this.cameras.delete(name);
  }

  describe(camera, part) {
    const name = part.title || part.name;
    camera.works = part.state === 'ok' || part.state === 'degraded';
    camera.image.alt = say('picture_of', { name });
    camera.box.setAttribute('aria-label', say('enlarge', { name }));
    const stale = camera.url !== '' && (!camera.works || camera.failures > 2);
    camera.box.classList.toggle('stale', stale);
    camera.note.textContent = stale ? say('last_picture', { time: clockTime(camera.at) }) : '';
    if (!camera.url && (!camera.works || camera.failures)) camera.note.textContent = say('no_picture');
  }

  async turn(signal) {
    const now = performance.now();
    const waiting = [...this.cameras].filter(([, one]) => one.works && one.onScreen && !one.busy && one.due <= now);
    waiting.sort(([, one], [, other]) => one.due - other.due);
    for (const [name, camera] of waiting.slice(0, Math.max(0, AT_A_TIME - this.inFlight))) {
      this.show(name, camera, signal);
    }
  }

  async show(name, camera, signal) {
    camera.busy = true;
    this.inFlight += 1;
    camera.due = performance.now() + INTERVAL_MS;
    try {
      const blob = await askBlob(`api/cameras/${encodeURIComponent(name)}/snapshot.jpg?boxes=1`, signal);
      await put(camera, blob);
      camera.failures = 0;
      if (this.cameras.get(name) !== camera) URL.revokeObjectURL(camera.url); // it left meanwhile
    } catch (error) {
      if (!signal.aborted) {
        camera.failures += 1;
        camera.due = performance.now() + Math.min(SLOWEST_MS, INTERVAL_MS * 2 ** camera.failures);
      }
    } finally {
      camera.busy = false;
      this.inFlight -= 1;
    }
  }
}

/** Shows the picture once it is decoded, so that nothing flickers. */
async function put(camera, blob) {
  const url = URL.createObjectURL(blob);
  const next = new Image();
  next.src = url;
  try {
    await next.decode();
  } catch (error) {
    URL.revokeObjectURL(url);
    throw error;
  }
  const old = camera.url;
  camera.url = url;
  camera.at = Date.now();
  camera.image.src = url;
  camera.image.hidden = false;
  camera.note.textContent = '';
  const shape = next.naturalWidth / next.naturalHeight;
  camera.box.style.aspectRatio = String(Math.min(16 / 9, Math.max(4 / 3, shape)));
  if (old) URL.revokeObjectURL(old);
}
