// Text with line numbers, as long as it may be: it is put on the page part by part, and what is shown can be used meanwhile. A long
// line is folded, as a terminal would.

import {el} from './dom.js';
import {shownParts} from './shown.js';

const PART_LINES = 500;
const FOLD_CHARACTERS = 400;
const SHOWN_LINES_MAX = 20000; // at once; more on request

/** [number or '>', text] for each line as it is shown. */
function* foldedLines(text) {
  let number = 0, at = 0;
  while (at < text.length) {
    const found = text.indexOf('\n', at), end = found < 0 ? text.length : found;
    let label = String(++number);
    do {
      let to = Math.min(at + FOLD_CHARACTERS, end);
      if (to < end && /[\ud800-\udbff]/.test(text[to - 1])) to++; // not within a character
      yield [label, text.slice(at, to)];
      label = '>';
      at = to;
    } while (at < end);
    at = end + 1;
  }
}

function lineOf([label, text]) {
  const content = el('span', {class: 'text'});
  for (const [part, isSpelled] of shownParts(text)) content.append(isSpelled ? el('span', {class: 'spelled'}, part) : part);
  return el('div', {class: 'line'}, el('span', {class: 'number'}, label), content);
}

const nextFrame = () => new Promise(resolve => { setTimeout(resolve); });

/** -> {element, whole}: `whole` is fulfilled when all of it is on the page, or its signal is aborted. */
export function listing(title, text, signal) {
  const element = el('div', {class: 'listing', tabindex: '0', role: 'group', 'aria-label': title});
  const lines = foldedLines(text);
  const put = async most => {
    for (let n = 0; n < most && !signal.aborted; n += PART_LINES) {
      const part = el('div', {class: 'part'});
      for (let i = 0; i < PART_LINES; i++) {
        const {done, value} = lines.next();
        if (done) {
          if (i > 0) element.append(part);
          return;
        }
        part.append(lineOf(value));
      }
      element.append(part);
      await nextFrame();
    }
    if (signal.aborted) return;
    await new Promise(resolve => {
      const more = el('button', {type: 'button', onclick: () => {
        more.remove();
        resolve(put(SHOWN_LINES_MAX));
      }}, `There is more. Show the next ${SHOWN_LINES_MAX.toLocaleString('en')} lines`);
      element.append(more);
    });
  };
  return {element, whole: put(SHOWN_LINES_MAX)};
}
