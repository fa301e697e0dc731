"""Texts for everything.Everything, by what a reader of protobuf text format must do with them."""

INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
LARGEST = {
    "int32": (-2**31, 2**31 - 1), "sint32": (-2**31, 2**31 - 1), "sfixed32": (-2**31, 2**31 - 1),
    "int64": (-2**63, 2**63 - 1), "sint64": (-2**63, 2**63 - 1), "sfixed64": (-2**63, 2**63 - 1),
    "uint32": (0, 2**32 - 1), "fixed32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1), "fixed64": (0, 2**64 - 1),
}

VALID = [
    b"",
    b" \t\r\n\v\f",
    b"# only a comment",
    b"# \xc3\xa4 and \x01 in a comment\n int32: 5 # another",
    b"int32: 0",
    b"int32: 5",
    b"int32 : 5",
    b"int32\n:\n5",
    b"int32:5 int64:6",
    b"int32:5,int64:6",
    b"int32:5;int64:6;",
    b"int32: 0x1F",
    b"int32: 0X1f",
    b"int32: 017",
    b"int32: 00",
    b"int32: -0",
    b"int32: - 5",
    b"int32: -\n# why not\n5",
    b"int32: -0x80000000",
    b"int64: -01000000000000000000000",
    b"inf: 1 true: 2 e5: 3 _under_score: 4",
    # floating point
    b"float: 1", b"float: 1.5", b"float: .5", b"float: 5.", b"float: -.5", b"float: - 1.25", b"float: 1f",
    b"float: 1.5F", b"float: 1e3", b"float: 1E-3", b"float: 1e+3f", b"float: 3.4028235e38", b"float: 3.5e38",
    b"float: -1e39", b"float: 1e-46", b"float: 1e-45", b"float: 340282356779733661637539395458142568447",
    b"float: 340282356779733661637539395458142568448", b"float: 340282366920938463463374607431768211456",
    b"float: 340282356779733661637539395458142568449",
    b"float: 0.1", b"float: 16777217", b"float: 1.00000005960464477539", b"float: inf", b"float: -nan",
    b"double: 0", b"double: -0", b"double: 0.1", b"double: 18446744073709551615", b"double: 18446744073709551616",
    b"double: 9007199254740993", b"double: 1e308", b"double: 1e309", b"double: -1e999", b"double: 5e-324", b"double: 1e-400",
    b"double: inf", b"double: INFINITY", b"double: -Inf", b"double: - infinity", b"double: nan", b"double: NaN",
    b"double: -nan", b"double: 0e0", b"double: 0f", b"double: 1" + b"0" * 400, b"double: 0." + b"0" * 400 + b"1",
    # bool
    b"bool: true", b"bool: True", b"bool: t", b"bool: 1", b"bool: false", b"bool: False", b"bool: f", b"bool: 0",
    b"bool: 0x1", b"bool: 01", b"bool: 00",
    # enums
    b"colour: RED", b"colour: LIME", b"colour: NEGATIVE", b"colour: -7", b"colour: - 7", b"colour: 0x2", b"colour: 01",
    b"colour: 2147483647", b"r_colour: [RED, 1, LIME, -7] r_colour: BLUE",
    # strings and bytes
    b'string: ""', b"string: ''", b'string: "a\'b"', b"string: 'a\"b'", b'string: "a" \'b\' "c"', b'string: "a"\n# x\n"b"',
    b'string: "a""b"', rb'string: "\a\b\f\n\r\t\v\\\'\"\?"', rb'string: "\101\60\x41\x4a\x4A"', rb'string: "\1234"',
    rb'string: "\x414"', rb'string: "\18"', rb'string: "\u00e4\u20ac"', rb'string: "\U0001f600\U0010ffff"',
    rb'string: "\ud83d\ude00"', rb'string: "\U0000d83d\ude00"', "string: \"\u00e4\u20ac\U0001f600\"".encode(),
    b'string: "\x01\x7f\t\r"', b'string: "# no comment"',
    # not UTF-8: proto2 strings are not held to it
    b'string: "\xff\xc3"', rb'string: "\ud83d"', rb'string: "\ud83dx"', rb'string: "\ud83d\u0041"', rb'string: "\ude00\ud83d"',
    rb'string: "\ud83d\U0000de00"', rb'string: "\377"', rb'string: "\777"', rb'string: "\xff"',
    # what is no code point stays as it was written
    rb'string: "\U00110000 \U001FFFFF"',
    b'bytes: ""', rb'bytes: "\000\001\377\x00"', rb'bytes: "\400"', rb"bytes: '\0' '\u0000'", b'bytes: "\xff"',
    b'r_bytes: ["", "a" "b"] r_bytes: "c"', b'r_string: "a" "b" r_string: ["a" \'b\', "c"]',
    # messages
    b"leaf {}", b"leaf{}", b"leaf: {}", b"leaf <>", b"leaf: < number: 1 >", b"leaf { number: 1 text: 'a' list: [1, 2] }",
    b"leaf: { number: 1, text: 'a'; list: 1, list: 2; }", b"leaf {};", b"leaf {}, int32: 1",
    b"nested { nested < nested { leaf { number: 1 } > }" .replace(b"{ leaf { number: 1 } >", b"{ leaf { number: 1 } } >"),
    b"nested {" * 90 + b"}" * 90,
    b"r_leaf {} r_leaf { number: 1 } r_leaf <>", b"r_leaf: [{number: 1}, <number: 2>]", b"r_leaf [{}, {}]", b"r_leaf: []",
    b"r_leaf [] r_leaf {}", b"r_nested { r_nested { int32: 1 } r_nested { int32: 2 } }",
    b"strict { must: 1 name: '' leaf {} }", b"r_strict [{ must: 1 name: 'a' leaf {} may: 2 }, < leaf <> name: 'b' must: 3 >]",
    b"defaults {}", b"defaults { number: -42 large: 18446744073709551615 real: 1.5 yes: true colour: BLUE }",
    b"defaults { text: \"default \\\"text\\\"\\n\" data: \"\\000\\001\\377\" }", b"defaults { text: '' data: '' yes: false }",
    # oneof
    b"choice {}", b"choice { number: 0 }", b"choice { text: '' }", b"choice { data: '' }", b"choice { leaf {} }",
    b"choice { colour: RED }", b"choice { real: 0 }", b"choice { before: 'a' leaf { number: 1 } after: 'b' }",
    b"r_choice [{ number: 1 }, { text: 'a' }, { data: 'b' }, { leaf {} }, { colour: BLUE }, { real: 1 }]",
    # lists
    b"r_int32: 1 r_int32: 2", b"r_int32: [1, 2] r_int32: 3 r_int32: []", b"r_int32: []", b"r_int32: [ ]", b"r_int32: [-1, - 2, 0x3]",
    b"r_bool: [t, false, 1]", b"r_double: [1, .5, -inf, nan]", b"p_int32: [1, -2, 3] p_int32: 4", b"p_double: [0, 1.5]",
    b"p_colour: [RED, 1, -7]", b"p_bool: [true, false]", b"p_fixed32: [0, 4294967295]", b"p_int32: []",
    b"r_int32: [" + b", ".join(b"%d" % n for n in range(1000)) + b"]",
]
VALID += [b"%s: %d r_%s: [0, %d, %d]" % (name.encode(), most, name.encode(), least, most)
          for name, (least, most) in LARGEST.items()]
VALID += [b"%s: %d" % (name.encode(), least) for name, (least, _) in LARGEST.items()]

BROKEN = [
    # tokens
    b"\0", b"int32: 5\0", b"# comment\0", b"\xef\xbb\xbfint32: 5", b"int32: \xc3\xa4", b"\x01", b"int32: 5 \x7f", b"int32: 5 // no",
    b"int32: 5 /* no */", b"int32: 5 \\", b"$", b"string: \"", b"string: \"a\nb\"", b"string: \"a", b"string: 'a\"", b"string: \"a\\",
    b"string: \"a\\\n\"", b"string: \"a\0b\"", rb'string: "\8"', rb'string: "\q"', rb'string: "\X41"', rb'string: "\x"', rb'string: "\xg"',
    rb'string: "\e"', rb'string: "\u00e"', rb'string: "\u00eg"', rb'string: "\U0001f60"', rb'string: "\U00200000"', rb'string: "\U10000000"',
    b"string: \"a\" b", b"bytes: \"\\", b"string: `a`",
    # numbers
    b"int32: 0x", b"int32: 0xg", b"int32: 08", b"int32: 019", b"int32: 1.0", b"int32: 1e3", b"int32: 1f", b"int32: 0f", b"int32: .5", b"int32: 5.",
    b"int32: --5", b"int32: +5", b"int32: 1-2", b"int32: '5'", b"int32: five", b"int32: true", b"int32: 5foo: 3", b"int32: 5int64: 3",
    b"int32: 0x5g", b"int32: 1_000", b"int32: inf", b"uint32: -0", b"uint64: -1", b"int32: 1 2", b"int32: 1.5.2",
    b"double: 0x10", b"double: 010", b"double: 00", b"double: 1e", b"double: 1e+", b"double: 1ee5", b"double: 1.2.3", b"double: 1e5.5", b"double: 01.5",
    b"double: 08.5", b"double: inff", b"double: infinit", b"double: 1ff", b"double: +1", b"double: --1", b"double: .", b"double: 'nan'",
    b"double: 1_0", b"float: nanf", b"double: 0x1p3", b"e5.5: 3", b"e5 .5: 3",
    b"bool: 2", b"bool: -1", b"bool: T", b"bool: TRUE", b"bool: yes", b"bool: 'true'", b"bool: 1.0", b"bool: 18446744073709551617",
    b"colour: PURPLE", b"colour: red", b"colour: 5", b"colour: -8", b"colour: 2147483648", b"colour: 4294967295", b"colour: 'RED'", b"colour: 1.0",
    b"colour: - RED", b"colour:", b"colour: 18446744073709551616",
    # structure
    b"int32", b"int32:", b"int32 5", b"int32:: 5", b"int32 = 5", b"int32:5;;", b"int32:5,,int64:6", b",int32:5", b";", b"int32: 5 }", b"}", b"{}", b"{",
    b"leaf", b"leaf:", b"leaf: 5", b"leaf {", b"leaf { number: 1", b"leaf { number: 1 >", b"leaf < number: 1 }", b"leaf: { number: 1 ;; }", b"leaf }", b"leaf []",
    b"leaf [{}]", b"leaf ()", b"leaf {} leaf {}", b"leaf { number: 1 number: 1 }", b"leaf: : {}", b"leaf: 'a'",
    b"int32: 1 int32: 1", b"string: 'a' string: 'b'", b"bytes: '' bytes: ''", b"bool: false bool: false", b"colour: RED colour: RED",
    b"defaults { yes: true yes: true }", b"strict { must: 1 must: 1 name: '' leaf {} }", b"strict { must: 1 name: '' leaf {} leaf {} }",
    b"choice { number: 1 number: 1 }", b"choice { number: 1 text: 'a' }", b"choice { leaf {} data: '' }", b"choice { text: '' leaf {} }", b"choice { real: 0 colour: RED }",
    b"int32: [1]", b"r_int32 [1]", b"r_int32: [1", b"r_int32: [1,]", b"r_int32: [,1]", b"r_int32: [1 2]", b"r_int32: [1; 2]", b"r_int32: [[1]]", b"r_int32: ]", b"r_int32: [1}",
    b"r_leaf: [{}{}]", b"r_leaf: [{},]", b"r_leaf: [5]", b"r_leaf [", b"r_leaf: [{}", b"r_string: ['a' 'b',, 'c']", b"p_int32: [1, 'a']",
    # names
    b"unknown: 1", b"Int32: 1", b"INT32: 1", b"31: 5", b"int-32: 5", b"'int32': 5", b"everything.int32: 5", b"leaf { leaf: 1 }", b"leaf { unknown {} }", b"kind: 1",
    b"[foo.bar]: 1", b"[everything.Leaf] {}", b"[type.googleapis.com/everything.Leaf] { number: 1 }", b"type_url: 'a' [x]: 1", b"leaf { [a]: 1 }", b"[",
    b"string: 5", b"string: abc", b"bytes: foo", b"bytes: {}", b"int32: {}", b"string: ['a']",
]
BROKEN += [b"%s: %d" % (name.encode(), most + 1) for name, (_, most) in LARGEST.items()]
BROKEN += [b"%s: %d" % (name.encode(), least - 1) for name, (least, _) in LARGEST.items()]
BROKEN += [b"%s: 340282366920938463463374607431768211456" % name.encode() for name in INTEGERS]

# protoc accepts, this reader refuses: text, what its message says, and why that is right.
STRICTER = [
    (b"strict {}", "required field", "protoc warns and writes a message that its own reader then refuses"),
    (b"strict { must: 1 name: 'a' }", "required field", "the same"),
    (b"r_strict [{ must: 1 name: 'a' leaf {} }, {}]", "required field", "the same"),
    (rb'string: "a\000b"', "must not hold a NUL", "protobuf-c holds a string as char *: it would end at the NUL"),
    (rb'string: "a" "\x00"', "must not hold a NUL", "the same"),
    (rb'r_string: ["a", "\u0000"]', "must not hold a NUL", "the same"),
    (b"nested {" * 101 + b"}" * 101, "nested more than", "protoc has no limit here; its binary reader has 100"),
    (b"leaf { gone: 1 }", "has no field", "protobuf-c does not keep reserved names, and skipping a value unread is no favour"),
]
