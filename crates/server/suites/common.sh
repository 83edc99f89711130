# What the suites share: the server on a free port with data of its own, which ends with the script.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=$PWD
server=${SERVER:-$here/target/release/siltstone-server}
mkdir -p target/suites

skip() {
    echo "skipped: $1"
    exit 0
}

# start PORT: starts the server; METRICS is the port of its page, if it is to have one.
start() {
    [ -x "$server" ] || cargo build --release
    data=$(mktemp -d)
    "$server" "$data" --port "$1" ${METRICS:+--metrics-port "$METRICS"} 2> "$data/log" &
    running=$!
    trap 'kill $running; wait $running || true; rm -rf "$data"' EXIT
    for _ in $(seq 100); do
        grep -q ready "$data/log" && return
        sleep 0.1
    done
    cat "$data/log" >&2
    exit 1
}

# python PACKAGE VERSION: unpacks the source distribution, and makes an environment that can run its tests.
python() {
    command -v python3 > /dev/null || skip "there is no python3"
    sources=$here/target/suites/$1-$2
    environment=$here/target/suites/venv
    [ -d "$sources" ] && return
    python3 -m venv "$environment" || skip "python3 has no venv"
    (cd target/suites && "$environment/bin/pip" -q download --no-deps --no-binary :all: "$1==$2") &&
        "$environment/bin/pip" -q install redis==5.2.1 pytest pytest-asyncio pytest-timeout django==5.2 ||
        skip "PyPI can't be reached"
    mkdir "$sources"
    tar -xf "$(ls -t target/suites/*.tar.gz | grep -i "/$1-$2.tar.gz")" -C "$sources" --strip-components 1
}
