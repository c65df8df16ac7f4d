#!/usr/bin/env bash
# Prints the folder in memory for the data of test servers, where there is one with room; else nothing.
set -euo pipefail
least=$((4 * 1024 * 1024)) # KiB
[[ -w /dev/shm ]] || exit 0
(($(df --output=avail -k /dev/shm | tail -n 1) < least)) || echo /dev/shm
