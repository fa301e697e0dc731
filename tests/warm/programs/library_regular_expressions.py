import re
print(re.findall(r"(?i)(\w+)@(\w+)\.com", "A@b.com c@D.com"), re.sub(r"(?P<x>a+)", r"<\g<x>>", "caat"))
print(re.compile(r"\d+"), re.split(r"[,;]", "a,b;c"), re.fullmatch("a|b", "b"))
re.compile("(unclosed")
