from tests.house import turns

BANNED = turns.turns(turns.TURNS.read_text("utf-8"))


def test_a_banned_turn_is_found_with_its_line():
    text = "one\nThe tick was\n# taken back, Anew.\n"
    assert list(turns.places(text, BANNED)) == [(3, "taken back"), (3, "Anew")]


def test_a_turn_that_spans_two_lines_is_found():
    assert list(turns.places("it is goes\n# on with", BANNED)) == [(1, "goes # on with")]


def test_words_that_only_contain_a_turn_pass():
    assert not list(turns.places("made_anew, the, nobody_s, history, heaps", BANNED))


def test_documentation_and_readme_have_no_banned_turn():
    left = turns.LEFT.read_text("utf-8").split()
    assert "docs" not in left
    assert "README.md" not in left


def test_the_repository_has_no_more_than_recorded(capsys):
    assert turns.main([]) == 0, capsys.readouterr().out
