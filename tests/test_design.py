# SPDX-License-Identifier: BSD-3-Clause
"""doc/design.md names files, functions and other symbols that the sources have."""

import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
DOCUMENT = TOP / "doc" / "design.md"
PARTS = ("libpf", "ompi-btl-exanest", "ompi-smsc-exanest", "driver")
# A path that begins with one of these is relative to the top of the tree, others to libpf/.
FOLDERS = PARTS + ("debian", "tests", "doc")

# `file.c`: `function()`, `function()`
PLACE = re.compile(r"`([\w./-]+\.[ch])`:((?:,?\s+`\w+\(\)`)+)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(?:[ch]|md|py|pml|map)")


def path_of(name):
    if name == "pf.h":
        return TOP / "libpf/include/libpf/pf.h"
    return TOP / name if name.split("/")[0] in FOLDERS else TOP / "libpf" / name


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


@cache
def code(path):
    return without_comments(path.read_text())


@cache
def words():
    """Every word of the sources outside of comments."""
    return {word for part in PARTS for path in (TOP / part).rglob("*.[ch]")
            for word in re.findall(r"\w+", code(path))}


def defines(text, function):
    """Has the text, without comments, a definition of the function, which begins in column 1?"""
    parameters = r"\((?:[^()]|\([^()]*\))*\)"
    return re.search(rf"^(?:\w[^;{{}}()=]*?(?:\(\(\w+\)\)[^;{{}}()=]*?)?)?\b{function}{parameters}\s*{{",
                     text, re.M) is not None


def places(text):
    return sorted({(file, function) for file, functions in PLACE.findall(text)
                   for function in re.findall(r"\w+", functions)})


def code_spans(text):
    """What is in code type outside of blocks, one for each."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return sorted(set(CODE.findall(text)))


def wrong_span(span):
    """What is wrong with a word in code type; None if nothing is."""
    if span.startswith("/"):  # of the system: /dev/exanest, /proc/PID/pagemap
        return None
    span = span.removeprefix("struct ").removeprefix("enum ").removesuffix("()")
    if "*" in span:
        path = path_of(span)
        if "/" in span:
            return None if any(path.parent.glob(path.name)) else f"there is no file {span}"
        prefix = span.split("*")[0]
        return None if any(word.startswith(prefix) for word in words()) else f"no name begins with {prefix}"
    if PATH.fullmatch(span):
        return None if path_of(span).exists() else f"there is no file {span}"
    for word in re.findall(r"[A-Za-z_]\w*", span):
        if word not in words():
            return f"the sources have no {word}"
    return None


def wrong_place(file, function):
    path = path_of(file)
    if not path.is_file():
        return f"there is no file {file}"
    return None if defines(code(path), function) else f"{file} does not define {function}()"


def test_functions_are_in_their_files():
    wrong = filter(None, (wrong_place(*place) for place in places(DOCUMENT.read_text())))
    assert "\n".join(wrong) == ""


def test_other_names_exist():
    wrong = filter(None, map(wrong_span, code_spans(DOCUMENT.read_text())))
    assert "\n".join(wrong) == ""


def test_links_to_sections_exist():
    text = DOCUMENT.read_text()
    titles = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
              for title in re.findall(r"^#+ (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= titles


def test_enough_is_named():
    """A change of the document's form must not leave nothing to check."""
    assert len(places(DOCUMENT.read_text())) > 100


def test_checks_find_what_is_wrong():
    sample = ("int declared(int a);\n"
              "/*\nvoid commented(void)\n{ */\n"
              "static __attribute__((noinline)) int defined(void (*f)(int), int a)\n{\n\tcalled(a);\n}\n"
              "static struct thing *\nbroken_line(int a)\n{\n}\n")
    sample = without_comments(sample)
    assert defines(sample, "defined") and defines(sample, "broken_line")
    assert not any(defines(sample, name) for name in ("declared", "commented", "called", "absent"))
    assert places("`a.c`: `f()`, `g()` and `h()`\n`b/c.h`:\n`i()`") == [
        ("a.c", "f"), ("a.c", "g"), ("b/c.h", "i")]
    assert wrong_place("host/absent.c", "f") and wrong_place("host/block.c", "no_such_function")
    assert not wrong_place("host/block.c", "block_fault")
    assert wrong_span("host/absent.c") and wrong_span("struct no_such_record")
    assert wrong_span("no_such_function()") and wrong_span("host/no_such_*.c")
    assert not wrong_span("host/block.c") and not wrong_span("struct block")
