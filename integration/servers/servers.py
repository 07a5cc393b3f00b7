#!/usr/bin/env python3
"""Test servers: makes, starts, restarts, kills and removes them. One implementation for the tests, scripts and people.

  servers.py up postgres 17                 a new Postgres 17; prints it as JSON (id, host, port, data, ..)
  servers.py up postgres 17 --name orders   the server of that name, made or started where needed
  servers.py url ID --user calve            its URL (roles: postgres, the superuser, and calve, which may replicate)
  servers.py psql ID -- -c 'select 1'       psql, pgbench and the like of its own version, as the superuser
  servers.py restart ID --mode kill         stop (fast, immediate, kill) and start again: same data, same port
  servers.py down ID                        stops it and removes its data

A server is, by preference: at an address given by environment (CALVE_TEST_POSTGRES_15, _17, _18; shared use only), in
Docker, or under chroot. CALVE_TEST_ENGINE=docker or chroot decides, `servers.py engine` tells. Everything lives below
CALVE_TEST_CACHE (as root /var/cache/calve-test).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import secrets
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import dockerd
import engines
import postgres
import registry
from processes import Failure
from registry import Entry, locked


def settings_of(pairs):
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Failure(f'--set takes NAME=VALUE, not "{pair}"')
        settings[name] = value
    return settings


def up(args):
    postgres.Program(args.version)
    address = os.environ.get(postgres.address_variable(args.version))
    if address and not args.dedicated:
        # Checked here so that a wrong address fails with its name, not in the middle of a test.
        state = {"id": f"address-{args.version}", "engine": "address", "version": args.version, "url": address}
        try:
            postgres.psql(state, "select 1")
        except Failure as failure:
            raise Failure(f"{postgres.address_variable(args.version)}: {failure}") from None
        return state
    entry = Entry(args.name or f"pg{args.version}-{secrets.token_hex(4)}")
    with locked(f"server-{entry.id}"):
        left_over = entry.owners() == (True, False)
        for pid in args.owner:
            entry.add_owner(pid)
        state = None
        if entry.exists():
            state = reuse(entry, args, left_over)
        if state is None:
            with locked(engines.ENGINE_USE, shared=True):
                state = postgres.create(entry, args.version, settings_of(args.set), args.hba, args.linger)
            postgres.start(entry, state)
    if args.owner:
        registry.ensure_reaper()
    return state


def reuse(entry, args, left_over):
    """The server of that name, running; None where it was left over by others and is of no use any more."""
    state = entry.load()
    try:
        if state["version"] != args.version:
            wrong = f'server "{entry.id}" is Postgres {state["version"]}, not {args.version}'
            raise Failure(f"{wrong}; `servers.py down {entry.id}` first")
        state["settings"].update(settings_of(args.set))
        postgres.start(entry, state)
        return state
    except Failure as failure:
        if not left_over:
            raise
        engines.say(f"making {entry.id} anew: {failure}")
        postgres.remove(state)
        return None


def with_server(args, action):
    """Runs an action on a server's state, one at a time."""
    entry = Entry(args.id)
    with locked(f"server-{entry.id}"):
        return action(entry, entry.load())


def start(args):
    def action(entry, state):
        state["settings"].update(settings_of(args.set))
        postgres.start(entry, state)

    with_server(args, action)


def stop(args):
    with_server(args, lambda entry, state: postgres.stop(entry, state, args.mode))


def restart(args):
    def action(entry, state):
        postgres.stop(entry, state, args.mode)
        state["settings"].update(settings_of(args.set))
        postgres.start(entry, state)

    with_server(args, action)


def take_down(entry, left_over_only=False):
    with locked(f"server-{entry.id}"):
        # Another process may have come to own it while this one waited.
        if left_over_only and entry.owners() != (True, False):
            return
        if entry.exists():
            postgres.remove(entry.load())
        entry.remove()


def down(args):
    if args.all:
        for entry in registry.entries():
            take_down(entry)
    elif args.id:
        for name in args.id:
            take_down(Entry(name))
    else:
        raise Failure("down takes the ids of servers, or --all")


def sweep(_):
    """Takes down what earlier runs left: owned once, by processes that are all gone."""
    for entry in registry.entries():
        take_down(entry, left_over_only=True)


def target(name):
    """The state of a server, or of an address given by environment (`address-17`)."""
    if name.startswith("address-"):
        version = name.removeprefix("address-")
        address = os.environ.get(postgres.address_variable(version))
        if not address:
            raise Failure(f"{postgres.address_variable(version)} is not set")
        return {"id": name, "engine": "address", "version": version, "url": address}
    return Entry(name).load()


def client(args, program):
    argv, env = postgres.client_command(target(args.id), program, args.words, args.database, args.user)
    # The caller's streams are the program's own.
    return subprocess.run(argv, env=env, check=False).returncode


def listing(_):
    for entry in registry.entries():
        state = entry.load()
        owned, alive = entry.owners()
        running = "running" if engines.from_state(state).alive(state) else "stopped"
        whose = "" if not owned else "  owned" if alive else "  left over"
        place = f"{state['host']}:{state['port']}"
        print(f"{entry.id}  postgres {state['version']}  {state['engine']}  {place}  {running}{whose}")


def stop_engine(_):
    """Stops the Docker engine that these scripts started, unless some server, perhaps another run's, still uses it."""
    with locked(engines.ENGINE_USE):
        users = [entry.id for entry in registry.entries() if entry.load().get("docker_own")]
        if users:
            print(f"the engine stays: {', '.join(users)} run in it", file=sys.stderr)
        else:
            dockerd.stop_own_engine()


def prepare(args):
    """Builds or pulls what servers of these versions need, side by side."""
    versions = args.versions or list(postgres.SUITES)
    wanted = [version for version in versions if not os.environ.get(postgres.address_variable(version))]
    for version in sorted(set(versions) - set(wanted)):
        print(f"Postgres {version}: at the address in {postgres.address_variable(version)}")
    postgres.tls_files()
    if not wanted:
        return

    def one(version):
        with locked(engines.ENGINE_USE, shared=True):
            return version, engines.choose(postgres.Program(version))

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for version, (engine, made_from) in pool.map(one, wanted):
            print(f"Postgres {version}: {', '.join(made_from.values())} ({engine.describe()})")


def parser():
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, does, **kwargs):
        added = commands.add_parser(name, **kwargs)
        added.set_defaults(does=does)
        return added

    it = command("up", lambda args: print(json.dumps(up(args))), help="make a server, or see that a named one runs")
    it.add_argument("kind", choices=["postgres"])
    it.add_argument("version")
    it.add_argument("--name", help="instead of a random id; the same name is the same server")
    it.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as in postgresql.conf")
    it.add_argument(
        "--hba", action="append", default=[], metavar="LINE", help="a line before all others of pg_hba.conf"
    )
    it.add_argument(
        "--owner", action="append", default=[], type=int, metavar="PID", help="take it down once these are gone"
    )
    it.add_argument("--linger", type=float, default=0, metavar="S", help="how long to wait with that")
    it.add_argument(
        "--dedicated", action="store_true", help="never a server given by address: this one will be restarted"
    )

    for name, does, text in [
        ("start", start, "start a stopped server"),
        ("restart", restart, "stop it and start it again"),
    ]:
        it = command(name, does, help=text)
        it.add_argument("id")
        it.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
        if name == "restart":
            it.add_argument("--mode", choices=["fast", "immediate", "kill"], default="fast")
    it = command("stop", stop, help="stop it; its data stays")
    it.add_argument("id")
    it.add_argument("--mode", choices=["fast", "immediate", "kill"], default="fast")

    it = command("down", down, help="stop servers and remove their data")
    it.add_argument("id", nargs="*")
    it.add_argument("--all", action="store_true")
    command("sweep", sweep, help="take down what earlier runs left behind")
    command(
        "reap",
        lambda _: registry.reap(lambda entry: take_down(entry, left_over_only=True)),
        help="(internal) take down servers as their owners go",
    )
    command("list", listing, help="the servers there are")

    it = command("info", lambda args: print(json.dumps(target(args.id))), help="a server as JSON")
    it.add_argument("id")
    it = command(
        "log", lambda args: print(engines.from_state(target(args.id)).log(target(args.id))), help="a server's log"
    )
    it.add_argument("id")
    it = command(
        "url", lambda args: print(postgres.url(target(args.id), args.user, args.database)), help="a server's URL"
    )
    it.add_argument("id")
    it.add_argument("--user", default=postgres.SUPERUSER)
    it.add_argument("--database", default="postgres")
    for name in ("psql", "pgbench", "pg_dump", "pg_recvlogical"):
        it = command(
            name,
            lambda args: client(args, args.command),
            help=f"{name} of the server's version, on it (its arguments after --)",
        )
        it.add_argument("id")
        it.add_argument("--database", default="postgres")
        it.add_argument("--user", default=postgres.SUPERUSER)

    it = command(
        "create-database",
        lambda args: postgres.create_database(target(args.id), args.name),
        help="an empty database, owned by calve",
    )
    it.add_argument("id")
    it.add_argument("name")
    it = command(
        "drop-database",
        lambda args: postgres.drop_database(target(args.id), args.name),
        help="drop it and the slots in it",
    )
    it.add_argument("id")
    it.add_argument("name")

    it = command("prepare", prepare, help="build or pull what the versions need (all by default)")
    it.add_argument("versions", nargs="*")
    it = command(
        "engine",
        lambda args: print(engines.choose(postgres.Program("15"))[0].describe()),
        help="what servers run in here",
    )
    command("stop-engine", stop_engine, help="stop the Docker engine that these scripts started, once it is idle")
    return top


def main():
    own, words = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, words = own[:at], own[at + 1 :]
    args = parser().parse_args(own)
    args.words = words
    try:
        return args.does(args) or 0
    except Failure as failure:
        print(f"servers: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
