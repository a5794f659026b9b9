"""``graveler user``, ``group``, ``policy`` and ``token``."""

import pytest


@pytest.fixture
def users(folder, cli):
    """ann, the admin, and bob in a team that may read."""
    for words in (
        "user create ann",
        "user create bob",
        "group create team",
        "group add team bob",
        "policy attach readers --group team",
    ):
        if words.startswith("policy"):
            assert cli("policy", "put", "readers", "allow read on flights").code == 0
        assert cli(*words.split()).code == 0


def test_the_verbs_say_what_they_did(folder, cli):
    said = [
        cli(*words).out
        for words in (
            ["user", "create", "ann"],
            ["user", "create", "bob"],
            ["group", "create", "team"],
            ["group", "add", "team", "bob"],
            ["policy", "put", "readers", "allow read on flights", "deny read on *:secret/*"],
            ["policy", "attach", "readers", "--group", "team"],
            ["policy", "attach", "readers", "--user", "bob"],
            ["policy", "show", "readers"],
            ["policy", "detach", "readers", "--user", "bob"],
            ["group", "list"],
            ["group", "remove", "team", "bob"],
            ["group", "delete", "team"],
            ["policy", "delete", "readers"],
            ["user", "delete", "bob"],
        )
    ]
    statements = "readers\n  allow read on flights\n  deny read on *:secret/*\n"
    assert said == [
        "made user ann, in the group admins\n",
        "made user bob\n",
        "made group team\n",
        "user bob is in group team\n",
        statements,
        "group team has policy readers\n",
        "user bob has policy readers\n",
        f"{statements}  users: bob\n  groups: team\n",
        "user bob does not have policy readers\n",
        "admins  users: ann; policies: (none)\nteam  users: bob; policies: readers\n",
        "user bob is not in group team\n",
        "deleted group team\n",
        "deleted policy readers\n",
        "deleted user bob\n",
    ]


def test_a_token_is_shown_once(users, cli, lake):
    made = cli(
        "token", "create", "bob", "--name", "spark", "--scope", "read on flights", "--json"
    ).json
    assert lake.iam.access.identify(made["token"]).user == "bob"
    (listed,) = cli("token", "list", "--json").lines
    assert listed == {name: value for name, value in made.items() if name != "token"}
    assert (listed["last"], listed["scopes"]) == (made["token"][-4:], ["read on flights"])
    assert made["token"] not in cli("user", "show", "bob").out + cli("token", "list").out
    assert cli("token", "revoke", made["id"]).out == f"revoked token {made['id']} of bob\n"
    assert cli("token", "list").out == ""


def test_programs_read_json(users, cli):
    assert cli("user", "show", "bob", "--json").json | {"created": ""} == {
        "name": "bob",
        "created": "",
        "groups": ["team"],
        "policies": [],
        "tokens": [],
    }
    names = [each["name"] for each in cli("user", "list", "--json").lines]
    assert names == ["ann", "bob"]
    assert [each["name"] for each in cli("user", "list", "--after", "ann", "--json").lines] == [
        "bob"
    ]
    groups = {
        ("-n", "1"): [{"name": "admins", "members": ["ann"], "policies": []}],
        ("--after", "admins"): [{"name": "team", "members": ["bob"], "policies": ["readers"]}],
        ("--after", "team"): [],
    }
    assert {page: cli("group", "list", *page, "--json").lines for page in groups} == groups
    (policy,) = cli("policy", "list", "--json").lines
    assert policy["statements"] == ["allow read on flights"]
    shown = cli("policy", "show", "readers", "--json").json
    assert (shown["users"], shown["groups"]) == ([], ["team"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("user delete ann", "'ann' is the last admin: make another one first"),
        ("group remove admins ann", "with `graveler group add admins NAME`"),
        ("user show eve", "no user 'eve' in the lake: `graveler user list` shows all of them"),
        ("policy attach readers", "--user and --group: give one of them"),
        ("policy put readers allow", "statement 'allow': give allow|deny ACTION"),
        ("token create bob --expires soon", "--expires 'soon': give a number and d, h, m or s"),
        ("token revoke 12", "no token '12' in the lake: `graveler token list` shows all of them"),
    ],
)
def test_errors_show_the_way_out(users, cli, words, told):
    said = cli(*words.split())
    assert said.code != 0
    assert told in said.err
