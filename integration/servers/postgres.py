"""A Postgres cluster for tests: how it is made, started, told to stop, and found ready."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import urllib.parse

import engines
import instance
from processes import Failure, run

SUITES = {"15": "bookworm", "17": "trixie", "18": "sid", "17-postgis": "trixie-postgis"}

# The official images: where tests want an extension, those that are made of them with it.
IMAGES = {
    "15": "postgres:15",
    "17": "pgvector/pgvector:pg17",
    "18": "pgvector/pgvector:pg18",
    "17-postgis": "postgis/postgis:17-3.5",
}

# Prepared only where named.
OPTIONAL = {"17-postgis"}

# Roles of every cluster. `calve` is what a user would give calve: it may replicate, and is no superuser.
SUPERUSER = "postgres"
REPLICATION_USER = "calve"
PASSWORDS = {SUPERUSER: "postgres", REPLICATION_USER: "calve"}
DEFAULT_DATABASE = "postgres"

CLIENTS = ("psql", "pgbench", "pg_dump", "pg_recvlogical")

DEFAULTS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "100",
    # After a kill, one call syncs the file system instead of one a file.
    "recovery_init_sync_method": "syncfs",
    "max_prepared_transactions": "10",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "ssl": "on",
}


class Program:
    """One version of Postgres: where it comes from and where its programs lie."""

    kind = "postgres"

    def __init__(self, version):
        if version not in SUITES:
            raise Failure(f"no Postgres {version} among the test servers; there are {', '.join(SUITES)}")
        self.version = version
        self.suite = SUITES[version]
        self.image = IMAGES[version]
        self.optional = version in OPTIONAL
        self.bin = f"/usr/lib/postgresql/{version.partition('-')[0]}/bin"


def quoted(name):
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value):
    """An SQL string, which is also a value of postgresql.conf."""
    return "'" + value.replace("'", "''") + "'"


SETUP = """
chmod 755 {home}
install -d -o postgres -g postgres -m 700 {home}/data {home}/run
chown postgres:postgres {home}/server.key
chmod 600 {home}/server.key
as_postgres() {{ setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }}
as_postgres {bin}/initdb -D {home}/data -U {superuser} --pwfile={home}/password --no-sync \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
echo "include '{home}/settings.conf'" >> {home}/data/postgresql.conf
as_postgres {bin}/postgres --single -D {home}/data postgres < {home}/roles.sql
cat {home}/pg_hba.conf > {home}/data/pg_hba.conf
sync -f {home}/data
"""


def create(entry, program, settings, hba, linger_s):
    """Makes a cluster's files and its entry; the server is not started."""
    state, engine = instance.describe(entry, program, {**DEFAULTS, **settings}, linger_s)
    state["hba"] = hba
    with instance.being_made(entry, state, engine) as home:
        (home / "password").write_text(PASSWORDS[SUPERUSER] + "\n", encoding="utf-8")
        (home / "roles.sql").write_text(
            f"create role {REPLICATION_USER} login replication password {literal(PASSWORDS[REPLICATION_USER])}\n",
            encoding="utf-8",
        )
        rules = ["local all all trust", "local replication all trust", *hba]
        rules += ["host all all all scram-sha-256", "host replication all all scram-sha-256"]
        (home / "pg_hba.conf").write_text("\n".join(rules) + "\n", encoding="utf-8")
        _write_settings(engine, state)
        engine.setup(state, SETUP.format(home=f"/srv/{entry.id}", bin=program.bin, superuser=SUPERUSER))
    return state


def prepare(_engine, _made_from, _program):
    """Nothing beyond the program itself: making a cluster takes a second."""


def change_settings(state, settings):
    state["settings"].update(settings)


def _write_settings(engine, state):
    inside = f"/srv/{state['id']}"
    fixed = {
        "listen_addresses": engine.listen,
        "unix_socket_directories": f"{inside}/run",
        "ssl_cert_file": f"{inside}/server.crt",
        "ssl_key_file": f"{inside}/server.key",
        "dynamic_shared_memory_type": "mmap",
    }
    lines = [f"{name} = {literal(value)}" for name, value in {**fixed, **state["settings"]}.items()]
    (engine.home(state) / "settings.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")


def start(entry, state, timeout_s=60):
    """Starts the server on its port and returns once it takes connections."""
    engine = engines.from_state(state)
    if not engine.alive(state):
        _write_settings(engine, state)
        _forget_dead_postmaster(engine, state)
        program = Program(state["version"])
        inside = f"/srv/{state['id']}"
        argv = [f"{program.bin}/postgres", "-D", f"{inside}/data", "-p", str(state["port"])]
        engine.start(state, argv, "postgres")
        state["stopped"] = False
        entry.save(state)
    instance.await_ready(engine, state, accepts_connections, timeout_s)


def _forget_dead_postmaster(engine, state):
    """Removes what a killed server left: lock files whose process number may meanwhile be another's and so block the
    start, and the shared memory segment named in them."""
    home = engine.home(state)
    with contextlib.suppress(OSError, IndexError):
        pid_file = home / "data" / "postmaster.pid"
        segment = pid_file.read_text(encoding="utf-8").splitlines()[6].split()[1]
        pid_file.unlink()
        if engine.kind == "chroot":
            subprocess.run(["ipcrm", "-m", segment], stderr=subprocess.DEVNULL, check=False)
    with contextlib.suppress(OSError):
        for left in (home / "run").iterdir():
            left.unlink()


def stop(entry, state, mode="fast", timeout_s=60):
    """Stops the server: `fast` with a checkpoint, `immediate` without, `kill` with SIGKILL."""
    engine = engines.from_state(state)
    if mode == "kill":
        engine.kill(state)
    else:
        engine.signal(state, {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        instance.await_end(engine, state, mode, timeout_s)
    state["stopped"] = True
    entry.save(state)


def remove(state):
    """Kills the server and removes all it has."""
    engine = engines.from_state(state)
    engine.kill(state)
    _forget_dead_postmaster(engine, state)
    engine.remove(state)


def accepts_connections(host, port):
    """Whether a server there answers a startup message with anything but "the database system is starting up"."""
    body = struct.pack("!I", 196608) + f"user\0{SUPERUSER}\0database\0postgres\0\0".encode()
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack("!I", len(body) + 4) + body)
            answer = connection.recv(1024)
    except OSError:
        return False
    # An error of class 57 is a state before readiness; an authentication request is what readiness looks like.
    return answer[:1] == b"R" or (answer[:1] == b"E" and b"C57P0" not in answer)


def url(state, user=SUPERUSER, database="postgres"):
    """A connection URL; for a server given by address, with the user it was given unless another is asked for."""
    if state["engine"] == "address":
        given = urllib.parse.urlsplit(state["url"])
        who = (
            given.netloc
            if user == SUPERUSER
            else f"{user}:{PASSWORDS.get(user, user)}@{given.netloc.rpartition('@')[2]}"
        )
        return urllib.parse.urlunsplit(given._replace(netloc=who, path="/" + urllib.parse.quote(database)))
    who = f"{user}:{PASSWORDS.get(user, user)}"
    return f"postgres://{who}@{state['host']}:{state['port']}/{urllib.parse.quote(database)}"


def client_command(state, program, arguments, database, user=SUPERUSER):
    """(argv, environment) of a Postgres client program (psql, pgbench, ..) against this server."""
    if program not in CLIENTS:
        raise Failure(f"{program} is no client of Postgres; there are {', '.join(CLIENTS)}")
    if state["engine"] == "address":
        if not shutil.which(program):
            variable = instance.address_variable("postgres", state["version"])
            raise Failure(f"needs {program} on this machine for {variable}; install postgresql-client")
        given = urllib.parse.urlsplit(url(state, user))
        env = {
            "PGHOST": given.hostname or "localhost",
            "PGPORT": str(given.port or 5432),
            "PGUSER": urllib.parse.unquote(given.username or SUPERUSER),
            "PGPASSWORD": urllib.parse.unquote(given.password or ""),
            "PGDATABASE": database,
        }
        return [program, *arguments], {**os.environ, **env}
    env = {"PGPORT": str(state["port"]), "PGUSER": user, "PGHOST": f"/srv/{state['id']}/run", "PGDATABASE": database}
    argv = [f"{Program(state['version']).bin}/{program}", *arguments]
    return engines.from_state(state).command(state, argv, "postgres", env)


# The client that runs SQL, told to print rows only, unaligned.
SQL_CLIENT = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]


def sql(state, text, database="postgres"):
    """Runs SQL as the superuser and returns what it printed."""
    argv, env = client_command(state, SQL_CLIENT[0], SQL_CLIENT[1:], database)
    return run(argv, what=f"SQL on {state['id']}", env=env, stdin=text)


def create_database(state, name):
    """A new, empty database owned by the replication user."""
    if state["engine"] == "address":
        exists = sql(state, f"select 1 from pg_roles where rolname = {literal(REPLICATION_USER)}").strip()
        if not exists:
            sql(
                state,
                f"create role {REPLICATION_USER} login replication password {literal(PASSWORDS[REPLICATION_USER])}",
            )
    sql(state, f"create database {quoted(name)} owner {REPLICATION_USER} template template0")


def drop_database(state, name):
    """Removes a database with the slots in it, whoever still uses them."""
    sql(
        state,
        f"""
        select pg_terminate_backend(active_pid) from pg_replication_slots
            where database = {literal(name)} and active_pid is not null;
        select pg_sleep(0.2) where exists
            (select from pg_replication_slots where database = {literal(name)} and active_pid is not null);
        select pg_drop_replication_slot(slot_name) from pg_replication_slots
            where database = {literal(name)} and not active;
        drop database if exists {quoted(name)} with (force);
        """,
    )
