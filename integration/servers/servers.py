#!/usr/bin/env python3
"""Test servers: makes, starts, restarts, kills and removes them. One implementation for the tests, scripts and people.

  servers.py up postgres 17                 a new Postgres 17; prints it as JSON (id, host, port, data, ..)
  servers.py up postgres 17 --name orders   the server of that name, made or started where needed
  servers.py up postgres 17-postgis         with PostGIS
  servers.py up mysql 9                     MySQL 9 or newer; the others are mariadb 10.11 and mariadb 11.8
  servers.py up mysql 9 --set gtid_mode=OFF with an option, here as in my.cnf
  servers.py url ID --user calve            its URL (users: postgres or root, who may all, and calve, who may replicate)
  servers.py sql ID < script.sql            runs SQL as the superuser, prints the rows only
  servers.py psql ID -- -c 'select 1'       psql, pgbench, mysql, mysqlbinlog and the like of its own version
  servers.py restart ID --mode kill         stop (fast, immediate, kill) and start again: same data, same port
  servers.py down ID                        stops it and removes its data

A server is, by preference: at an address given by environment (CALVE_TEST_POSTGRES_15, _17, _18, _17_POSTGIS,
CALVE_TEST_MYSQL_9, CALVE_TEST_MARIADB_10_11, _11_8; shared use only), in Docker, or under chroot.
CALVE_TEST_ENGINE=docker or chroot decides, `servers.py engine` tells. Everything lives below CALVE_TEST_CACHE (as root
/var/cache/calve-test).
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

import certificates
import dockerd
import engines
import instance
import mysql
import postgres
import registry
from processes import Failure
from registry import Entry, locked

# By the kind of a server, what knows it.
DATABASES = {"postgres": postgres, "mysql": mysql, "mariadb": mysql}


def database_of(state):
    return DATABASES[state["kind"]]


def program_of(kind, version):
    return postgres.Program(version) if kind == "postgres" else mysql.Program(kind, version)


def address_of(kind, version):
    """A server given by environment, None where there is none."""
    address = os.environ.get(instance.address_variable(kind, version))
    if not address:
        return None
    server_id = f"address-{kind}-{version}"
    return {"id": server_id, "kind": kind, "version": version, "engine": "address", "url": address}


def all_programs():
    versions = {"postgres": postgres.SUITES, **mysql.SUITES}
    return [program_of(kind, version) for kind, known in versions.items() for version in known]


def settings_of(pairs):
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Failure(f'--set takes NAME=VALUE, not "{pair}"')
        settings[name] = value
    return settings


def up(args):
    program = program_of(args.kind, args.version)
    state = address_of(args.kind, args.version)
    if state and not args.dedicated:
        # Checked here so that a wrong address fails with its name, not in the middle of a test.
        try:
            database_of(state).sql(state, "select 1")
        except Failure as failure:
            raise Failure(f"{instance.address_variable(args.kind, args.version)}: {failure}") from None
        return state
    short = "pg" if args.kind == "postgres" else args.kind
    entry = Entry(args.name or f"{short}{args.version}-{secrets.token_hex(4)}")
    with locked(f"server-{entry.id}"):
        left_over = entry.owners() == (True, False)
        for pid in args.owner:
            entry.add_owner(pid)
        state = None
        if entry.exists():
            state = reuse(entry, args, left_over)
        if state is None:
            database = DATABASES[args.kind]
            with locked(engines.ENGINE_USE, shared=True):
                state = database.create(entry, program, settings_of(args.set), args.hba, args.linger)
            database.start(entry, state)
    if args.owner:
        registry.ensure_reaper()
    return state


def reuse(entry, args, left_over):
    """The server of that name, running; None where it was left over by others and is of no use any more."""
    state = entry.load()
    try:
        if (state["kind"], state["version"]) != (args.kind, args.version):
            wrong = f'server "{entry.id}" is {state["kind"]} {state["version"]}, not {args.kind} {args.version}'
            raise Failure(f"{wrong}; `servers.py down {entry.id}` first")
        database_of(state).change_settings(state, settings_of(args.set))
        database_of(state).start(entry, state)
        return state
    except Failure as failure:
        if not left_over:
            raise
        engines.say(f"making {entry.id} anew: {failure}")
        database_of(state).remove(state)
        return None


def with_server(args, action):
    """Runs an action on a server's state, one at a time."""
    entry = Entry(args.id)
    with locked(f"server-{entry.id}"):
        return action(entry, entry.load())


def start(args):
    def action(entry, state):
        database_of(state).change_settings(state, settings_of(args.set))
        database_of(state).start(entry, state)

    with_server(args, action)


def stop(args):
    with_server(args, lambda entry, state: database_of(state).stop(entry, state, args.mode))


def restart(args):
    def action(entry, state):
        database_of(state).stop(entry, state, args.mode)
        database_of(state).change_settings(state, settings_of(args.set))
        database_of(state).start(entry, state)

    with_server(args, action)


def take_down(entry, left_over_only=False):
    with locked(f"server-{entry.id}"):
        # Another process may have come to own it while this one waited.
        if left_over_only and entry.owners() != (True, False):
            return
        if entry.exists():
            state = entry.load()
            database_of(state).remove(state)
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
    """The state of a server, or of an address given by environment (`address-postgres-17`)."""
    if not name.startswith("address-"):
        return Entry(name).load()
    kind, _, version = name.removeprefix("address-").partition("-")
    state = address_of(kind, version)
    if not state:
        raise Failure(f"{instance.address_variable(kind, version)} is not set")
    return state


def url(args):
    state = target(args.id)
    database = database_of(state)
    print(database.url(state, args.user or database.SUPERUSER, args.database or database.DEFAULT_DATABASE))


def client(args, program, options=()):
    state = target(args.id)
    database = database_of(state)
    user, name = args.user or database.SUPERUSER, args.database or database.DEFAULT_DATABASE
    argv, env = database.client_command(state, program, [*options, *args.words], name, user)
    # The caller's streams are the program's own.
    return subprocess.run(argv, env=env, check=False).returncode


def sql(args):
    program, *options = database_of(target(args.id)).SQL_CLIENT
    return client(args, program, options)


def listing(_):
    for entry in registry.entries():
        state = entry.load()
        owned, alive = entry.owners()
        running = "running" if engines.from_state(state).alive(state) else "stopped"
        whose = "" if not owned else "  owned" if alive else "  left over"
        place = f"{state['host']}:{state['port']}"
        print(f"{entry.id}  {state['kind']} {state['version']}  {state['engine']}  {place}  {running}{whose}")


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
    known = {f"{program.kind}-{program.version}": program for program in all_programs()}
    for name in args.servers:
        if name not in known:
            raise Failure(f"no test server {name}; there are {', '.join(known)}")
    wanted = []
    for name in args.servers or [name for name in known if not known[name].optional]:
        program = known[name]
        variable = instance.address_variable(program.kind, program.version)
        if os.environ.get(variable):
            print(f"{name}: at the address in {variable}")
        else:
            wanted.append(program)
    certificates.tls_files()

    def one(program):
        with locked(engines.ENGINE_USE, shared=True):
            engine, made_from = engines.choose(program)
            DATABASES[program.kind].prepare(engine, made_from, program)
            return program, engine, made_from

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for program, engine, made_from in pool.map(one, wanted):
            what = ", ".join(made_from.values())
            print(f"{program.kind}-{program.version}: {what} ({engine.describe()})", flush=True)


def parser():
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, does, **kwargs):
        added = commands.add_parser(name, **kwargs)
        added.set_defaults(does=does)
        return added

    it = command("up", lambda args: print(json.dumps(up(args))), help="make a server, or see that a named one runs")
    it.add_argument("kind", choices=list(DATABASES))
    it.add_argument("version")
    it.add_argument("--name", help="instead of a random id; the same name is the same server")
    it.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="as in postgresql.conf or my.cnf")
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

    def at_database(it):
        it.add_argument("id")
        it.add_argument("--user", help="the superuser by default")
        it.add_argument("--database")

    at_database(command("url", url, help="a server's URL"))
    at_database(command("sql", sql, help="run SQL from standard input, print rows only (client's arguments after --)"))
    for name in (*postgres.CLIENTS, *mysql.CLIENTS["mysql"]):
        helped = f"{name} of the server's version, on it (its arguments after --)"
        at_database(command(name, lambda args: client(args, args.command), help=helped))

    it = command(
        "create-database",
        lambda args: database_of(target(args.id)).create_database(target(args.id), args.name),
        help="an empty database that calve may replicate",
    )
    it.add_argument("id")
    it.add_argument("name")
    it = command(
        "drop-database",
        lambda args: database_of(target(args.id)).drop_database(target(args.id), args.name),
        help="drop it and the replication slots in it",
    )
    it.add_argument("id")
    it.add_argument("name")

    it = command("prepare", prepare, help="build or pull what servers need (by default all but 17-postgis)")
    known = [f"{program.kind}-{program.version}" for program in all_programs()]
    it.add_argument("servers", nargs="*", metavar="SERVER", help=", ".join(known))
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
