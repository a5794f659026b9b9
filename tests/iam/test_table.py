"""Who may do what, on every request of every surface: the status of each."""

import pytest

from graveler.server import Server
from graveler.server.webhdfs.operations import OPERATIONS
from graveler.testing import World
from tests.harness.webhdfs import WebHdfs

POLICIES = {
    "reader": ["allow read on flights"],
    "writer": ["allow read,write on flights@dev:t/*"],
    "dropper": ["allow write on flights@dev:t/*"],
    "denied": ["allow read,write on flights", "deny read,write on flights@dev:t/secret/*"],
}
WHO = ["stranger", "wrong", "expired", "none", *POLICIES, "admin", "scoped"]
"""The identities. `scoped` is a token of the admin that may only read flights@dev:t/*."""

REQUESTS = """
request                                             str wro exp non rea wri dro den adm sco
GET    /                            LISTSTATUS      401 401 401 200 200 200 200 200 200 200
GET    /                            GETFILESTATUS   401 401 401 200 200 200 200 200 200 200
GET    /flights                     LISTSTATUS      401 401 401 403 200 200 200 200 200 200
GET    /flights                     LISTSTATUS_BATCH 401 401 401 403 200 200 200 200 200 200
GET    /unknown                     LISTSTATUS      401 401 401 403 403 403 403 403 404 403
GET    /flights/dev                 LISTSTATUS      401 401 401 403 200 200 200 200 200 200
GET    /flights/main                LISTSTATUS      401 401 401 403 200 403 403 200 200 403
GET    /flights/gone                LISTSTATUS      401 401 401 403 404 403 403 404 404 403
GET    /flights/dev@                LISTSTATUS      401 401 401 403 200 200 200 200 200 200
GET    /flights/dev/t               GETFILESTATUS   401 401 401 403 200 200 200 200 200 200
GET    /flights/dev/t/a             GETFILESTATUS   401 401 401 403 200 200 200 200 200 200
GET    /flights/dev/t/a             GETFILELINKSTATUS 401 401 401 403 200 200 200 200 200 200
GET    /flights/dev/t/secret        GETFILESTATUS   401 401 401 403 200 200 200 403 200 200
GET    /flights/dev/t/secret/b      GETFILESTATUS   401 401 401 403 200 200 200 403 200 200
GET    /flights/dev/t/secret/x      GETFILESTATUS   401 401 401 403 404 404 404 403 404 404
GET    /flights/dev/u/c             GETFILESTATUS   401 401 401 403 200 403 403 200 200 403
GET    /flights/dev/t               GETCONTENTSUMMARY 401 401 401 403 200 200 403 403 200 200
GET    /flights/dev/u               GETCONTENTSUMMARY 401 401 401 403 200 403 403 200 200 403
GET    /flights/dev/t/a             OPEN            401 401 401 403 200 200 403 200 200 200
GET    /flights/dev/t/secret/b      OPEN            401 401 401 403 200 200 403 403 200 200
GET    /flights/dev/u/c             OPEN            401 401 401 403 200 403 403 200 200 403
GET    /flights/main/t/a            OPEN            401 401 401 403 200 403 403 200 200 403
GET    /flights/dev@/t/a            OPEN            401 401 401 403 200 200 403 200 200 200
GET    /flights/dev~0/t/secret/b    OPEN            401 401 401 403 200 200 403 403 200 200
GET    /flights/v1/t/a              OPEN            401 401 401 403 200 403 403 200 200 403
GET    /flights/COMMIT/t/a          OPEN            401 401 401 403 200 403 403 200 200 403
GET    /flights/COMMIT/t/secret/b   OPEN            401 401 401 403 200 403 403 403 200 403
GET    /flights/PREFIX/t/secret/b   OPEN            401 401 401 403 200 403 403 403 200 403
GET    /flights/dev^0/t/secret/b    OPEN            401 401 401 403 200 403 403 403 200 403
GET    /flights/dev/t/a             GETFILEBLOCKLOCATIONS 401 401 401 403 200 200 403 200 200 200
GET    /flights/dev/t/secret/b      GET_BLOCK_LOCATIONS 401 401 401 403 200 200 403 403 200 200
GET    /                            GETHOMEDIRECTORY 401 401 401 200 200 200 200 200 200 200
GET    /                            GETSERVERDEFAULTS 401 401 401 200 200 200 200 200 200 200
GET    /                            GETSTATUS       401 401 401 200 200 200 200 200 200 200
GET    /                            GETDELEGATIONTOKEN 401 401 401 200 200 200 200 200 200 200
GET    /flights/dev/t/a             CHECKACCESS&fsaction=r-- 401 401 401 403 200 200 403 200 200 200
GET    /flights/dev/t/a             CHECKACCESS&fsaction=rw- 401 401 401 403 403 200 403 200 200 403
GET    /flights/dev/t               CHECKACCESS&fsaction=-w- 401 401 401 403 403 200 200 200 200 403
GET    /flights/dev/u               CHECKACCESS&fsaction=-w- 401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/t               MKDIRS          401 401 401 403 403 200 200 200 200 403
PUT    /flights/dev/t/new           MKDIRS          401 401 401 403 403 200 200 200 200 403
PUT    /flights/dev/u/new           MKDIRS          401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/t/secret/new    MKDIRS          401 401 401 403 403 200 200 403 200 403
PUT    /flights/dev/t/new           CREATE&data=true 401 401 401 403 403 201 201 201 201 403
PUT    /flights/dev/t/new           CREATE          401 401 401 403 403 307 307 307 307 403
PUT    /flights/dev/t/a             CREATE&data=true&overwrite=true 401 401 401 403 403 201 201 201 201 403
PUT    /flights/dev/u/new           CREATE&data=true 401 401 401 403 403 403 403 201 201 403
PUT    /flights/dev/t/secret/new    CREATE&data=true 401 401 401 403 403 201 201 403 201 403
PUT    /flights/main/t/new          CREATE&data=true 401 401 401 403 403 403 403 201 201 403
PUT    /flights/v1/t/new            CREATE&data=true 401 401 401 403 403 403 403 403 403 403
PUT    /flights/dev/t/_SUCCESS      CREATE&data=true 401 401 401 403 403 201 201 403 201 403
PUT    /flights/dev/u/_SUCCESS      CREATE&data=true 401 401 401 403 403 403 403 201 201 403
PUT    /flights/dev/t/a             RENAME&destination=/flights/dev/t/new 401 401 401 403 403 200 403 200 200 403
PUT    /flights/dev/t/a             RENAME&destination=/flights/dev/u 401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/u/c             RENAME&destination=/flights/dev/t/c 401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/t/secret/b      RENAME&destination=/flights/dev/t/b 401 401 401 403 403 200 403 403 200 403
PUT    /flights/dev/t/a             RENAME&destination=/flights/dev/t/secret 401 401 401 403 403 200 403 403 200 403
PUT    /flights/dev/t               RENAME&destination=/flights/dev/w 401 401 401 403 403 403 403 403 200 403
PUT    /flights/dev/t/a             RENAME&destination=/flights/main/t/x 401 401 401 403 403 403 403 400 400 403
PUT    /flights/dev/t/x             RENAME&destination=/flights/dev/t/y 401 401 401 403 403 200 200 200 200 403
PUT    /flights/dev/t/a             RENAME&renameoptions=OVERWRITE&destination=/flights/dev/t/secret/b 401 401 401 403 403 200 403 403 200 403
DELETE /flights/dev/t/a             DELETE          401 401 401 403 403 200 200 200 200 403
DELETE /flights/dev/u/c             DELETE          401 401 401 403 403 403 403 200 200 403
DELETE /flights/dev/t/secret/b      DELETE          401 401 401 403 403 200 200 403 200 403
DELETE /flights/dev/t/secret/x      DELETE          401 401 401 403 403 200 200 403 200 403
DELETE /flights/dev/t               DELETE&recursive=true 401 401 401 403 403 200 200 403 200 403
DELETE /flights/dev/u               DELETE&recursive=true 401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/t/a             SETPERMISSION   401 401 401 403 403 200 200 200 200 403
PUT    /flights/dev/t               SETOWNER        401 401 401 403 403 200 200 200 200 403
PUT    /flights/dev/u               SETTIMES        401 401 401 403 403 403 403 200 200 403
PUT    /flights/dev/u/c             SETREPLICATION  401 401 401 403 403 403 403 200 200 403
POST   /flights/dev                 COMMIT&message=m 401 401 401 403 403 403 403 403 200 403
POST   /flights/dev/t               COMMIT&message=m 401 401 401 403 403 200 200 403 200 403
PUT    /flights/dev/u               COMMIT&message=m 401 401 401 403 403 403 403 200 200 403
GET    /flights/dev/t/a             GETFILECHECKSUM 401 401 401 400 400 400 400 400 400 400
POST   /flights/dev/t/a             APPEND          401 401 401 400 400 400 400 400 400 400
"""
ROWS = [line.split() for line in REQUESTS.splitlines()[2:]]


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def lake(world):
    with world.open() as lake:
        repo = lake.create_repository("flights")
        for path in ("t/a", "t/secret/b", "u/c"):
            repo.branch("main").put(path, b"x")
        repo.branch("main").commit("files")
        repo.create_branch("dev")
        repo.tags.create("v1", "main")
        lake.create_repository("hidden")
        yield lake


@pytest.fixture(scope="module")
def tokens(lake):
    iam = lake.iam
    iam.create_user("admin")
    for name, statements in POLICIES.items():
        iam.create_user(name)
        iam.put_policy(name, statements)
        iam.attach(name, user=name)
    iam.create_user("none")
    secrets = {name: iam.create_token(name)[0] for name in (*POLICIES, "none", "admin")}
    expired, _ = iam.create_token("admin", life="1s")
    scoped, _ = iam.create_token("admin", scopes=["read on flights@dev:t/*"])
    return secrets | {"stranger": "", "wrong": f"grav{0:040}", "expired": expired, "scoped": scoped}


@pytest.fixture(scope="module")
def clients(world, lake, tokens):
    world.clock.advance(seconds=2)
    with Server(lake, commit_on_success=True) as server:
        clients = {who: WebHdfs(server.address, tokens[who]) for who in WHO}
        yield clients
        for client in clients.values():
            client.close()


def fresh(repo, base):
    """Undo what a request did, also in the memory of the server."""
    repo.branch("main").reset(to=base)
    repo.delete_branch("dev")
    repo.create_branch("dev")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_who_may_do_what(lake, clients, row):
    method, path, asked, *expected = row
    repo = lake.repository("flights")
    base = repo.branch("main").head.id
    path = path.replace("COMMIT", base).replace("PREFIX", base[:12])
    op, _, query = asked.partition("&")
    options = dict(each.split("=") for each in query.split("&")) if query else {}
    body = b"x" if op == "CREATE" and options else None
    found = []
    for who in WHO:
        fresh(repo, base)
        if op == "COMMIT":
            for staged in ("t/n", "u/n"):
                repo.branch("dev").put(staged, b"new")
        if op == "OPEN":
            options = {"offset": 0}
        found.append(str(clients[who].ask(method, path, op, body, **options).status))
    assert dict(zip(WHO, found, strict=True)) == dict(zip(WHO, expected, strict=True))


def test_the_table_has_every_request_of_the_surface():
    asked = {(row[0], row[2].partition("&")[0]) for row in ROWS}
    assert asked >= set(OPERATIONS)


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        (
            "/",
            {
                "none": [],
                "reader": ["flights/"],
                "scoped": ["flights/"],
                "admin": ["flights/", "hidden/"],
            },
        ),
        ("/flights", {"writer": ["dev/"], "reader": ["dev/", "main/", "v1/"], "dropper": ["dev/"]}),
        ("/flights/dev", {"writer": ["t/"], "denied": ["t/", "u/"], "scoped": ["t/"]}),
        (
            "/flights/dev/t",
            {"writer": ["a", "secret/"], "denied": ["a"], "reader": ["a", "secret/"]},
        ),
    ],
)
def test_lists_contain_what_a_client_may_know_of(clients, lake, path, listed):
    fresh(lake.repository("flights"), "main")
    assert {who: clients[who].names(path) for who in listed} == listed


def test_the_secret_is_exchanged_for_a_token_by_oauth(clients, tokens):
    for who, status in {
        "admin": 200,
        "none": 200,
        "expired": 401,
        "wrong": 401,
        "stranger": 401,
    }.items():
        reply = clients[who].send("POST", "/token", f"client_secret={tokens[who]}".encode())
        assert reply.status == status


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "OAuth2"])
def test_a_bearer_comes_before_the_name_of_a_user(clients, tokens, scheme):
    """Hadoop's client sends the name of the system's user beside the token."""
    target = "/webhdfs/v1/flights/dev/t/a?op=GETFILESTATUS&user.name=root"
    for who, status in {"admin": 200, "none": 403, "wrong": 401}.items():
        headers = {"Authorization": f"{scheme} {tokens[who]}"}
        assert clients[who].send("GET", target, headers=headers).status == status


def test_who_may_not_commit_a_jobs_folder_does_not_end_the_job(lake, clients):
    """Spark removes its staging folder last, and the server commits the folder above."""
    staging = "/flights/dev/t/.spark-staging-1"
    fresh(lake.repository("flights"), "main")
    lake.iam.create_user("stager")
    lake.iam.put_policy("stager", ["allow read,write on flights@dev:t/.spark-staging-1/*"])
    lake.iam.attach("stager", user="stager")
    address = f"webhdfs://{clients['admin'].authority}/"
    client = WebHdfs(address, lake.iam.create_token("stager")[0])
    assert client.mkdirs(staging).status == 200
    assert client.ask("PUT", f"{staging}/_SUCCESS", "CREATE", b"", data="true").status == 201
    assert client.delete(staging, recursive=True).failure == (403, "AccessControlException")
    assert client.kind(staging) == "DIRECTORY"
    client.close()
