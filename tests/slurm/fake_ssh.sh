#!/bin/sh
# ssh for tests: starts the command on this machine, in a session of its own. SSH_LOG, a file, gets the hosts.
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
echo "$1" >>"${SSH_LOG:-/dev/null}"
shift
exec setsid -w sh -c "$*"
