// Text that somebody else wrote, so that its reader sees what it is and not what it wants to look like: the rule of `immure approve`
// (server/cli/shown_text.c). Pure.

/** Beyond ASCII, what is shown as it is: like nothing else. Letters that share their looks with Latin ones have a rule of their own. */
const PLAIN = new RegExp('^['
  + '\u00a1-\u00a7\u00a9-\u00ac\u00ae-\u00b3\u00b5\u00b6\u00b9-\u00d6\u00d8-\u00f6\u00f8-\u0130\u0132-\u0137\u0139-\u013e\u0141-\u0148'
  + '\u014a-\u017e\u0218-\u021b\u1ea0-\u1ef9\u3001\u3002\u300c-\u3011\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3'
  + '\u20a0-\u20c0\u2190-\u21ff\u221e\u2260\u2264\u2265\u2600-\u26ff\u2705\u2713-\u2718'
  + '\u{1f300}-\u{1f3fa}\u{1f400}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}]$', 'u');

/** Greek and Cyrillic letters, and those of them that are like no Latin letter. */
const FOREIGN = /^[\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce\u0401\u0404\u0406\u0407\u0410-\u044f\u0451\u0454\u0456\u0457]$/;
const OWN = /^[ΔΛΞΠΣΦΨΩδλξπφψДЖИЙЛФЦШЩЫЭЮЯджийлфцшщыэюя]$/;

const ASCII_WORD = /^[A-Za-z0-9_]$/;
const QUICK = /^[\x20-\x7e]*$/;

const isPlain = char => (char >= ' ' && char <= '~') || PLAIN.test(char);

function spelled(char) {
  return char === '\t' ? '<TAB>' : `<U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}>`;
}

/** Whether the foreign letters from `at` on are a word for themselves, with a letter that is like no other; and where they end. */
function readWord(chars, at, afterLetter) {
  let end = at, own = false;
  for (; end < chars.length && FOREIGN.test(chars[end]); end++) own ||= OWN.test(chars[end]);
  const next = chars[end] ?? ' ';
  const endsInLatin = ASCII_WORD.test(next) || (next > '\x7f' && !PLAIN.test(next));
  return {end, isShown: own && !endsInLatin && !afterLetter};
}

/** -> parts of one text, [text, whether it is spelled out], to be told apart by their looks. */
export function shownParts(text) {
  if (QUICK.test(text)) return text ? [[text, false]] : [];
  const chars = Array.from(text), parts = [];
  let word = {end: 0, isShown: false}, afterLetter = false, begun = '';
  chars.forEach((char, i) => {
    let plain = isPlain(char);
    if (FOREIGN.test(char)) {
      if (i >= word.end) word = readWord(chars, i, afterLetter);
      plain = word.isShown;
    }
    afterLetter = ASCII_WORD.test(char) || (!plain && char > '\x7f');
    if (plain) {
      begun += char;
      return;
    }
    if (begun) parts.push([begun, false]);
    parts.push([spelled(char), true]);
    begun = '';
  });
  if (begun) parts.push([begun, false]);
  return parts;
}

export const shownText = text => shownParts(String(text)).map(([part]) => part).join('');
