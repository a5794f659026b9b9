"""The rollback of a published run."""

KEY = "hourly 05"


def base(repo):
    main = repo.branch("main")
    main.put("settled", b"0")
    main.commit("base")


def publish(repo, key, files, **terms):
    with repo.run(key, **terms) as run, run.step("work") as step:
        for path, text in files.items():
            if text is None:
                step.delete(path)
            else:
                step.put(path, text.encode())
    return repo.runs.get(key)


def done(repo):
    base(repo)
    publish(repo, KEY, {"a": "1"})


def take_back(repo):
    return repo.runs.rollback(KEY)
