// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources whose bytes matter, and sources that are refused.

use cowlab_insert::{Copy, Error, ExitKind, Selection, Target, analyse, instrument};

fn copy(source: &[u8]) -> Copy {
    instrument(source, b"a.c", &Selection::default()).expect("it parses")
}

/// `name` or `name!` (left alone) of each function, in order.
fn names(source: &[u8]) -> Vec<String> {
    let found = analyse(source).expect("it parses");
    let mark = |left: bool| if left { "!" } else { "" };
    found.iter().map(|f| format!("{}{}", f.name, mark(f.left_alone.is_some()))).collect()
}

#[test]
fn bytes_are_kept_and_functions_found() {
    // Source, functions, why.
    let table: [(&[u8], &[&str], &str); 21] = [
        (b"int f(void)\r\n{\r\n\treturn 1;\r\n}\r\n", &["f"], "lines that end with CRLF"),
        (b"\xef\xbb\xbfint f(void) { return 1; }\n", &["f"], "a byte order mark stays first"),
        (b"int f(void) { return 1; }", &["f"], "no line end at the end"),
        (b"int f(void) { return 1; }\n#define X \\\n", &["f"], "a continued line at the end"),
        (b"int f(void) { puts(\"\xe4\"); return '\xe4'; }", &["f"], "Latin-1 in literals"),
        (b"/* \xff\xfe */ int \xc3\xa4(void) { return 1; }", &["ä"], "bytes that are no UTF-8"),
        (b"in\\\nt f\\\r\noo(void)\\\n{\\\nreturn 1;}", &["foo"], "continued lines inside words"),
        (b"int f(void) <% int a<:1:>; return 1; %>\n%:define X\n", &["f"], "digraphs"),
        (
            b"int f(void) { return \"}{\"[0] + '{' + '\\'' + \"\\\"{\"[0]; }",
            &["f"],
            "braces in literals",
        ),
        (b"// it's {\nint f(void) { return 1; /* { */ }", &["f"], "braces and quotes in comments"),
        (b"#error don't {\nint f(void) { return 1; }", &["f"], "quotes in directives"),
        (
            b"#if 0\ndon't {{{\n#endif\nint f(void) { return 1; }",
            &["f"],
            "text that nobody compiles",
        ),
        (
            b"#ifdef NOTES\ndon't {{{\n#endif\nint f(void) { return 1; }",
            &["f"],
            "the same, by its looks",
        ),
        (b"", &[], "nothing"),
        (b"\n\n/* only words */\n#define X {\n", &[], "no code"),
        (b"extern \"C\" { int f(void) { return 1; } }", &["f"], "linkage"),
        (
            b"int f(void) { return 1; };\nint g(void) { return 1; }",
            &["f", "g"],
            "a stray semicolon",
        ),
        (
            b"struct s { int (*f)(void); } v = { g }; union u f(void) { return v; }",
            &["f"],
            "aggregates",
        ),
        (
            b"MODULE(\"x\")\nint f(void) { return 1; }\nLICENSE(\"y\")",
            &["f"],
            "macros between functions",
        ),
        (b"int x = 1'000; int f(void) { return 0x1p-3 + 1e+5; }", &["f"], "numbers"),
        (b"int f(void) { FOR_EACH(a, b) { x(); } return 0; }", &["f"], "loops made by macros"),
    ];
    for (source, expected, why) in table {
        assert_eq!(names(source), expected, "{why}");
        let copy = copy(source);
        let mut rest = copy.bytes.clone();
        for insertion in copy.insertions.iter().rev() {
            let before: usize = copy
                .insertions
                .iter()
                .take_while(|other| *other != insertion)
                .map(|other| other.text.len())
                .sum();
            let at = insertion.at + before;
            rest.drain(at..at + insertion.text.len());
        }
        assert_eq!(rest, source, "{why}");
        assert_eq!(copy.insertions.is_empty(), expected.is_empty(), "{why}");
    }
}

#[test]
fn what_does_not_parse_is_refused_with_its_line() {
    let table: [(&[u8], u32, &str, &str); 12] = [
        (b"int f(void) {\n\tif (x) {\n", 2, "never closed", "a missing brace"),
        (b"int f(void)\n{\n}\n}\n", 4, "nothing opened", "a brace too many"),
        (b"int main( {\n return 0; }", 1, "never closed", "a parenthesis that stays open"),
        (b"int f(void) {\n\n return (1]; }", 3, "is open", "the wrong bracket"),
        (b"int f(void) { return 0; } /* \n", 1, "comment", "an open comment"),
        (b"char *s = \"abc\n;\n", 1, "quote", "an open string"),
        (b"int f(void) { return 0; }\n#if X\n", 2, "#if without #endif", "an open #if"),
        (b"#endif\n", 1, "#endif without #if", "an #endif too many"),
        (b"\n#else\n", 2, "#else without #if", "an #else alone"),
        (b"int f(void) { }\nreturn 1;\n}", 3, "nothing opened", "a body that ended early"),
        (
            b"int f(void) ??< return 0; ??>\n",
            1,
            "trigraph",
            "trigraphs, which compilers read or not",
        ),
        (b"\x7fELF\x01\x00\x00", 1, "does not know", "a binary"),
    ];
    for (source, line, part, why) in table {
        match analyse(source) {
            Err(Error::Syntax { line: seen, what }) => {
                assert!(seen == line && what.contains(part), "{why}: line {seen}: {what}");
            }
            other => panic!("{why}: expected an error, saw {other:?}"),
        }
    }
    let once = copy(b"int f(void) { return 1; }");
    assert_eq!(analyse(&once.bytes), Err(Error::Instrumented(1)));
}

#[test]
fn exits_are_found_and_given_to_their_function() {
    let source = b"#include <stdlib.h>\n\
        int f(int a)\n{\n\tif (a)\n\t\treturn 1;\n\tint g(void) { return 2; }\n\
        \tif (a > 2)\n\t\texit(1);\n\treturn g();\n}\n\
        void h(void)\n{\n\tif (f(1))\n\t\treturn;\n}\n\
        void i(void) { abort(); }\n";
    let found = analyse(source).expect("it parses");
    let exits = |name: &str| {
        let function = found.iter().find(|function| function.name == name).expect("it is there");
        function.exits.iter().map(|exit| (exit.line, exit.kind)).collect::<Vec<_>>()
    };
    use ExitKind::{End, Noreturn, Return};
    assert_eq!(exits("f"), [(5, Return), (8, Noreturn), (9, Return)]);
    assert_eq!(exits("g"), [(6, Return)]);
    assert_eq!(exits("h"), [(14, Return), (15, End)]);
    assert_eq!(exits("i"), [(16, Noreturn)]);
}

#[test]
fn selection_is_by_name_and_lines() {
    let source =
        b"int aa(void) { return 1; }\nint ab(void)\n{\n\treturn 1;\n}\nint b(void) { return 1; }\n";
    let selected = |only: &[&str], exclude: &[&str], lines: u32| {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
        let selection = Selection::new(&own(only), &own(exclude), lines).expect("patterns");
        let copy = instrument(source, b"a.c", &selection).expect("it parses");
        let chosen = copy.functions.iter().filter(|function| function.identifier.is_some());
        chosen.map(|function| function.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(selected(&[], &[], 0), ["aa", "ab", "b"]);
    assert_eq!(selected(&["a*"], &[], 0), ["aa", "ab"]);
    assert_eq!(selected(&["a*", "b"], &["?a"], 0), ["ab", "b"]);
    assert_eq!(selected(&[], &[], 4), ["ab"]);
    assert_eq!(selected(&[], &[], 5), [""; 0]);
    assert!(Selection::new(&["[".into()], &[], 0).is_err());
}

#[test]
fn golden_copy() {
    let source = b"#include <stdio.h>\nstatic int f(int a)\n{\n\treturn a;\n}\n";
    let expected = "#include <casper/insert.h>\nCASPER_UNIT(<unit>);\n#line 1 \"a.c\"\n\
        #include <stdio.h>\nstatic int f(int a)\n{ CASPER_FUNCTION(<unit>, 0);\n\treturn a;\n}\n\
        \n#ifndef <unit>_end\n#define <unit>_end\n\
        static const struct casper_function <unit>_functions[] = {\n\t{ \"f\", 2 },\n};\n\
        CASPER_UNIT_END(<unit>, \"a.c\", <unit>_functions)\n#endif\n";
    let copy = copy(source);
    let identifier = copy.functions[0].identifier.clone().expect("an identifier");
    let unit = identifier.strip_suffix(":0").expect("the first of its unit");
    assert_eq!(String::from_utf8_lossy(&copy.bytes), expected.replace("<unit>", unit));
}

#[test]
fn the_kernels_words_and_header_belong_to_the_kernels_sources() {
    let source = b"#include <linux/casper.h>\n#define pr_fmt(fmt) fmt\n\
        noinstr int a(void) { return 1; }\n\
        static int __init b(void) { return 1; }\n\
        int notrace c(void);\nint c(void) { return 1; }\n\
        SYSCALL_DEFINE0(fork) { return 1; }\n\
        static __always_inline int d(void) { return 1; }\n";
    let kernel = Selection::default().of(Target::Kernel);
    let copy = instrument(source, b"kernel/a.c", &kernel).expect("it parses");
    let done: Vec<&str> = copy
        .functions
        .iter()
        .filter(|function| function.identifier.is_some())
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(done, ["d"]);
    let text = String::from_utf8(copy.bytes.clone()).unwrap();
    assert!(text.starts_with("#include <linux/casper.h>\nCASPER_UNIT("), "{text}");
    assert!(!text.contains("casper/insert.h"), "{text}");
    // A copy is no source, but the kernel's own use of its header is.
    let again = instrument(&copy.bytes, b"kernel/a.c", &kernel);
    assert_eq!(again.unwrap_err(), Error::Instrumented(2));
    // In a program these are ordinary words.
    let program = instrument(b"int a(notrace x) { return x; }", b"a.c", &Selection::default());
    assert_eq!(program.unwrap().insertions.len(), 3);
}
