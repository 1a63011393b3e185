# The servers that the tests of some crates want. ci/suites.sh reads this file.
# A server and its tests have a network of their own, in which only loopback exists. So the ports that the tests
# name are free, and no test can reach another machine. Only root can make such a network.

# What runs a command in the network of the present server: empty if there is none.
network=()
# The process that keeps the network, the folder of the server's data, and the command that stops the server.
keeper='' data='' stop=()

# The program that the tests of a crate want.
declare -A server_of=([redis]=redis-server [mysql]=mariadbd [postgres]=initdb [tokio-postgres]=initdb)

# can_serve CRATE: whether the tests of a crate want no server, or that is there.
can_serve() {
    [ -n "${server_of[$1]:-}" ] || return 0
    PATH=$PATH:/usr/sbin:$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    if command -v "${server_of[$1]}" >/dev/null && [ "$(id -u)" = 0 ]; then return 0; fi
    [ "${CI:-}" != true ] || { echo "the tests of $1 want root and ${server_of[$1]}: run ci/setup.sh" >&2; exit 1; }
    echo "the tests of $1 were NOT run: they want root and ${server_of[$1]}, which ci/setup.sh installs" >&2
    return 1
}

# start_server CRATE: starts what the tests of a crate want, if anything.
start_server() {
    [ -n "${server_of[$1]:-}" ] || return 0
    start_network
    case $1 in
        redis) ;; # Each test starts its own.
        mysql) start_mariadb ;;
        *) start_postgres ;;
    esac
}

stop_server() {
    [ ${#stop[@]} -eq 0 ] || "${stop[@]}" >/dev/null 2>&1 || true
    [ -z "$keeper" ] || kill "$keeper" 2>/dev/null || true
    wait
    [ -z "$data" ] || rm -rf "$data"
    network=() keeper='' data='' stop=()
}

# Makes a network, and a folder for the server.
start_network() {
    unshare --net -- sh -c 'ip link set lo up && exec sleep infinity' &
    keeper=$!
    network=(nsenter "--net=/proc/$keeper/ns/net" --)
    wait_until is_network_ready
    data=$(mktemp -d)
}

is_network_ready() {
    [ "$(readlink "/proc/$keeper/ns/net")" != "$(readlink /proc/self/ns/net)" ] && "${network[@]}" ip link show up | grep LOOPBACK
}

# wait_until COMMAND ..: waits until a command succeeds, for half a minute at most.
wait_until() {
    local since=$SECONDS
    until "$@" >/dev/null 2>&1; do
        [ $((SECONDS - since)) -lt 30 ] || { echo "in half a minute did not succeed: $*" >&2; exit 1; }
        sleep 0.05
    done
}

# MariaDB with the user of the tests.
start_mariadb() {
    local options=(--no-defaults --user=root "--datadir=$data/data" "--tmpdir=$data")
    mariadb-install-db "${options[@]}" --auth-root-authentication-method=normal --skip-test-db >"$data/install" 2>&1
    echo "ALTER USER root@localhost IDENTIFIED BY 'password';" >"$data/users.sql"
    "${network[@]}" mariadbd "${options[@]}" --bind-address=127.0.0.1 --port=3307 "--socket=$data/socket" "--pid-file=$data/pid" \
        "--init-file=$data/users.sql" --max-allowed-packet=256M --log-bin --server-id=1 --performance-schema --innodb-flush-log-at-trx-commit=0 >"$data/log" 2>&1 &
    stop=(kill $!)
    export DATABASE_URL=mysql://root:password@127.0.0.1:3307/mysql
    wait_until "${network[@]}" mariadb --no-defaults -h 127.0.0.1 -P 3307 -u root -ppassword -e 'SELECT 1'
}

# PostgreSQL with the users and the extensions of the tests. It refuses to run as root.
start_postgres() {
    local user
    chown postgres "$data"
    as_postgres initdb --auth=trust --username=postgres --no-sync -D "$data/data" >"$data/install"
    for user in pass_user:password md5_user:md5 scram_user:scram-sha-256 postgres:trust; do
        printf '%s\n' "host all ${user%:*} 127.0.0.1/32 ${user#*:}" "host all ${user%:*} ::1/128 ${user#*:}"
    done >"$data/data/pg_hba.conf"
    "${network[@]}" runuser -u postgres -- env -C / "$(command -v pg_ctl)" -w -D "$data/data" -l "$data/log" \
        -o "-h localhost -p 5433 -k $data -c fsync=off" start >/dev/null
    stop=(as_postgres pg_ctl -m fast -D "$data/data" stop)
    "${network[@]}" psql -q -v ON_ERROR_STOP=1 -h localhost -p 5433 -U postgres <<'END'
CREATE ROLE pass_user PASSWORD 'password' LOGIN;
SET password_encryption TO 'md5';
CREATE ROLE md5_user PASSWORD 'password' LOGIN;
SET password_encryption TO 'scram-sha-256';
CREATE ROLE scram_user PASSWORD 'password' LOGIN;
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
END
}

as_postgres() { runuser -u postgres -- env -C / "$(command -v "$1")" "${@:2}"; }
