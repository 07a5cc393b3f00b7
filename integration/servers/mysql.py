"""A MySQL or MariaDB server for tests: how it is made, started, told to stop, and found ready.

Initialising a data directory takes seconds, so each is copied from a template made once: of the same program, with the
users in it, with an empty binary log and no identity (`auto.cnf`) of its own.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import urllib.parse

import engines
import instance
from processes import Failure, discard, run
from registry import locked

# `9` is MySQL 9 or newer: what Debian unstable has.
SUITES = {"mysql": {"9": "sid"}, "mariadb": {"10.11": "bookworm", "11.8": "trixie"}}

# Users of every server. `calve` is what a user would give calve: it may read rows and the log, and nothing else.
SUPERUSER = "root"
REPLICATION_USER = "calve"
PASSWORDS = {SUPERUSER: "root", REPLICATION_USER: "calve"}
DEFAULT_DATABASE = "mysql"

# As a production server that is replicated from: a full row log, every commit on disk. What is small here saves memory.
DEFAULTS = {
    "log_bin": "binlog",
    "binlog_row_image": "FULL",
    "sync_binlog": "1",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_buffer_pool_size": "64M",
    # Containers and chroots often have no asynchronous I/O to give.
    "innodb_use_native_aio": "OFF",
    "max_connections": "200",
    # A readiness probe hangs up after the greeting, which counts as an error of its host.
    "max_connect_errors": "1000000",
    "skip_name_resolve": "ON",
    "default_time_zone": "+00:00",
    "character_set_server": "utf8mb4",
    "local_infile": "ON",
    "secure_file_priv": "",
}
DEFAULTS_OF = {
    "mysql": {
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "mysqlx": "OFF",
        "innodb_redo_log_capacity": "64M",
    },
    # MySQL has no other format by default, and means to do without the option.
    "mariadb": {"binlog_format": "ROW", "innodb_log_file_size": "64M"},
}

# What a data directory is made with and cannot change later: each choice has a template of its own.
CHOSEN_WHEN_MADE = ("lower_case_table_names", "innodb_page_size")

# Raise when a change to this file should make new templates.
TEMPLATE_RECIPE = 3


class Program:
    """One version of MySQL or MariaDB: where it comes from and what its programs are called."""

    def __init__(self, kind, version):
        if version not in SUITES[kind]:
            raise Failure(f"no {NAMES[kind]} {version} among the test servers; there are {', '.join(SUITES[kind])}")
        self.kind = kind
        self.version = version
        self.suite = SUITES[kind][version]
        self.image = f"{kind}:{version}"
        self.optional = False
        self.server = {"mysql": "/usr/sbin/mysqld", "mariadb": "/usr/sbin/mariadbd"}[kind]


NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}

# What the clients are called, by their name on MySQL.
CLIENTS = {
    "mysql": {name: name for name in ("mysql", "mysqldump", "mysqlbinlog", "mysqladmin")},
    "mariadb": {
        "mysql": "mariadb",
        "mysqldump": "mariadb-dump",
        "mysqlbinlog": "mariadb-binlog",
        "mysqladmin": "mariadb-admin",
    },
}


def quoted(name):
    """An SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(value):
    """An SQL string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _spelled(settings):
    """Settings by the spelling that SHOW VARIABLES has: the servers take both `-` and `_`."""
    return {name.replace("-", "_"): value for name, value in settings.items()}


def _replication_grants(kind):
    monitor = {"mysql": "REPLICATION CLIENT", "mariadb": "BINLOG MONITOR"}[kind]
    return f"GRANT REPLICATION SLAVE, {monitor}, SELECT ON *.* TO {literal(REPLICATION_USER)}@'%';\n"


def _create_replication_user(kind):
    who, password = literal(REPLICATION_USER), literal(PASSWORDS[REPLICATION_USER])
    return f"CREATE USER IF NOT EXISTS {who}@'%' IDENTIFIED BY {password};\n" + _replication_grants(kind)


def _users_sql(kind):
    root, password = literal(SUPERUSER), literal(PASSWORDS[SUPERUSER])
    return (
        f"CREATE USER {root}@'%' IDENTIFIED BY {password};\n"
        f"GRANT ALL PRIVILEGES ON *.* TO {root}@'%' WITH GRANT OPTION;\n"
        f"ALTER USER {root}@'localhost' IDENTIFIED BY {password};\n"
    ) + _create_replication_user(kind)


# Each makes {home}/data with the users of {home}/users.sql in it. MariaDB's installation also makes a root without a
# password for each of the machine's own addresses, which would hide the one made for all hosts.
INITIALISE = {
    "mysql": """
install -d -o mysql -g mysql -m 750 {home}/data
{server} --no-defaults --user=mysql --datadir={home}/data --initialize-insecure --init-file={home}/users.sql \
    --skip-log-bin --innodb-use-native-aio=OFF --innodb-redo-log-capacity=64M {options}
rm -f {home}/data/auto.cnf
""",
    "mariadb": """
install -d -o mysql -g mysql -m 750 {home}/data
mariadb-install-db --no-defaults --user=mysql --datadir={home}/data --skip-test-db --skip-name-resolve \
    --auth-root-authentication-method=normal --innodb-use-native-aio=OFF --innodb-log-file-size=64M {options}
{{ cat <<'END'; cat {home}/users.sql; }} | {server} --no-defaults --user=mysql --datadir={home}/data \
    --bootstrap --innodb-use-native-aio=OFF --innodb-log-file-size=64M {options}
DELETE FROM mysql.global_priv WHERE user = 'root' AND host <> 'localhost';
FLUSH PRIVILEGES;
END
""",
}

SETUP = """
chmod 755 {home}
install -d -o mysql -g mysql -m 750 {home}/run {home}/tmp
chown mysql:mysql {home}/server.key
chmod 600 {home}/server.key
cp -a {template}/data {home}/data
sync -f {home}/data
"""


def _template(engine, state):
    """The state of the template for this server, made where it is missing."""
    program = Program(state["kind"], state["version"])
    chosen = {name: state["settings"][name] for name in CHOSEN_WHEN_MADE if name in state["settings"]}
    made_from = {name: state[name] for name in ("root", "image") if name in state}
    users = _users_sql(program.kind)
    digest = hashlib.sha256(json.dumps([TEMPLATE_RECIPE, made_from, chosen, users]).encode()).hexdigest()[:12]
    template = {**made_from, "id": f"template-{program.kind}-{program.version}-{digest}"}
    home = engine.home(template)
    with locked(template["id"]):
        if not (home / "ready").exists():
            discard(home)
            home.mkdir(parents=True)
            (home / "users.sql").write_text(users, encoding="utf-8")
            options = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in chosen.items())
            script = INITIALISE[program.kind].format(
                home=f"/srv/{template['id']}", server=program.server, options=options
            )
            engine.setup(template, script)
            (home / "ready").touch()
    return template


def create(entry, program, settings, hba, linger_s):
    """Makes a server's files and its entry; the server is not started."""
    if hba:
        raise Failure(f"{NAMES[program.kind]} has no pg_hba.conf; its users say who may log in")
    wanted = {**DEFAULTS, **DEFAULTS_OF[program.kind], **_spelled(settings)}
    state, engine = instance.describe(entry, program, wanted, linger_s)
    with instance.being_made(entry, state, engine):
        # As unique as the port: a replica's number must be no other's.
        state["settings"].setdefault("server_id", str(state["port"]))
        _write_settings(engine, state)
        template = _template(engine, state)
        script = SETUP.format(home=f"/srv/{entry.id}", template=f"/srv/{template['id']}")
        engine.setup(state, script, beside=template)
    return state


def prepare(engine, made_from, program):
    """Makes the template that servers of this version are copied from."""
    _template(engine, {"kind": program.kind, "version": program.version, "settings": {}, **made_from})


def change_settings(state, settings):
    state["settings"].update(_spelled(settings))


def _write_settings(engine, state):
    inside = f"/srv/{state['id']}"
    fixed = {
        "datadir": f"{inside}/data",
        "tmpdir": f"{inside}/tmp",
        "socket": f"{inside}/run/mysqld.sock",
        "pid_file": f"{inside}/run/mysqld.pid",
        "port": str(state["port"]),
        "bind_address": engine.listen,
        "ssl_ca": f"{inside}/ca.crt",
        "ssl_cert": f"{inside}/server.crt",
        "ssl_key": f"{inside}/server.key",
    }
    lines = ["[mysqld]"]
    for name, value in {**fixed, **state["settings"]}.items():
        # `log_bin = OFF` would be a log of the name OFF.
        lines.append("skip_log_bin" if (name, value.upper()) == ("log_bin", "OFF") else f"{name} = {value}")
    (engine.home(state) / "my.cnf").write_text("\n".join(lines) + "\n", encoding="utf-8")


def start(entry, state, timeout_s=60):
    """Starts the server on its port and returns once it takes connections."""
    engine = engines.from_state(state)
    if not engine.alive(state):
        _write_settings(engine, state)
        _forget_dead_server(engine, state)
        program = Program(state["kind"], state["version"])
        engine.start(state, [program.server, f"--defaults-file=/srv/{state['id']}/my.cnf"], "mysql")
        state["stopped"] = False
        entry.save(state)
    instance.await_ready(engine, state, accepts_connections, timeout_s)


def _forget_dead_server(engine, state):
    """Removes the socket's lock file, whose process number may meanwhile be another's and so block the start."""
    with contextlib.suppress(OSError):
        for left in (engine.home(state) / "run").iterdir():
            left.unlink()


def stop(entry, state, mode="fast", timeout_s=60):
    """Stops the server: `fast` as its manual has it, `immediate` without writing pages back, `kill` with SIGKILL."""
    engine = engines.from_state(state)
    if mode == "kill":
        engine.kill(state)
    elif engine.alive(state):
        if mode == "immediate":
            # "Flush its logs and shut down cold, as if it had crashed": the next start recovers from the redo log.
            sql(state, "SET GLOBAL innodb_fast_shutdown = 2")
        engine.signal(state, signal.SIGTERM)
        instance.await_end(engine, state, mode, timeout_s)
    state["stopped"] = True
    entry.save(state)


def remove(state):
    """Kills the server and removes all it has."""
    engine = engines.from_state(state)
    engine.kill(state)
    engine.remove(state)


def accepts_connections(host, port):
    """Whether a server there greets a client with its handshake, whose first byte is the protocol version, 10."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            greeting = connection.recv(5)
    except OSError:
        return False
    return greeting[4:5] == b"\x0a"


def url(state, user=SUPERUSER, database=""):
    """A connection URL; for a server given by address, with the user it was given unless another is asked for."""
    path = "/" + urllib.parse.quote(database, safe="") if database else ""
    if state["engine"] == "address":
        given = urllib.parse.urlsplit(state["url"])
        who = f"{user}:{PASSWORDS.get(user, user)}@{given.netloc.rpartition('@')[2]}"
        return urllib.parse.urlunsplit(given._replace(netloc=given.netloc if user == SUPERUSER else who, path=path))
    return f"mysql://{user}:{PASSWORDS.get(user, user)}@{state['host']}:{state['port']}{path}"


def client_command(state, program, arguments, database="", user=SUPERUSER):
    """(argv, environment) of a client program (mysql, mysqldump, ..; MariaDB's of the same purpose) on this server."""
    name = CLIENTS[state["kind"]].get(program)
    if name is None:
        raise Failure(f"{program} is no client of {NAMES[state['kind']]}; there are {', '.join(CLIENTS['mysql'])}")
    words = []
    if program in ("mysql", "mysqldump"):
        words.append("--default-character-set=utf8mb4")
    if program == "mysql":
        words.append("--comments")
        if database:
            words.append(f"--database={database}")
    if state["engine"] == "address":
        if not shutil.which(name):
            variable = instance.address_variable(state["kind"], state["version"])
            raise Failure(f"needs {name} on this machine for {variable}; install it (default-mysql-client)")
        given = urllib.parse.urlsplit(url(state, user))
        who = urllib.parse.unquote(given.username or SUPERUSER)
        place = [f"--host={given.hostname or '127.0.0.1'}", f"--port={given.port or 3306}", f"--user={who}"]
        env = {**os.environ, "MYSQL_PWD": urllib.parse.unquote(given.password or "")}
        return [name, "--no-defaults", *place, *words, *arguments], env
    place = [f"--socket=/srv/{state['id']}/run/mysqld.sock", f"--user={user}"]
    argv = [name, "--no-defaults", *place, *words, *arguments]
    return engines.from_state(state).command(state, argv, "mysql", {"MYSQL_PWD": PASSWORDS.get(user, user)})


# The client that runs SQL, told to print rows only: columns apart by tabs, NULL as a word, tabs and newlines escaped.
SQL_CLIENT = ["mysql", "--batch", "--skip-column-names"]


def sql(state, text, database=""):
    """Runs SQL as the superuser and returns what it printed."""
    argv, env = client_command(state, SQL_CLIENT[0], SQL_CLIENT[1:], database)
    return run(argv, what=f"SQL on {state['id']}", env=env, stdin=text)


def create_database(state, name):
    """A new, empty database. The replication user reads every database."""
    if state["engine"] == "address":
        sql(state, _create_replication_user(state["kind"]))
    sql(state, f"CREATE DATABASE {quoted(name)}")


def drop_database(state, name):
    """Removes a database, whoever still uses it."""
    users = sql(state, f"SELECT id FROM information_schema.processlist WHERE db = {literal(name)}").split()
    for connection in users:
        # It may have ended by itself.
        with contextlib.suppress(Failure):
            sql(state, f"KILL {int(connection)}")
    sql(state, f"SET lock_wait_timeout = 10; DROP DATABASE IF EXISTS {quoted(name)}")
