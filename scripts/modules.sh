# The modules of the repository that hold code, for scripts to source; tools/ only pins what scripts run.

mapfile -t modules < <(find . \( -path ./.git -o -path ./build -o -path ./tools -o -name node_modules \) -prune -o -name go.mod -printf '%h\n' |
  sed 's|^\./||' | sort)

# packages_in MODULE PKG... prints those of the packages, named from the root of the repository, that are in a module, as
# they are called there. ./... are those of every module.
packages_in() {
  local module=$1 package other
  shift
  for package in "$@"; do
    package=./${package#./}
    if [[ $package == ./... ]]; then
      echo ./...
      continue
    fi
    other=${package#./}
    other=${other%%/*}
    [[ -f $other/go.mod ]] || other=.
    [[ $other == "$module" ]] || continue
    if [[ $module == . ]]; then
      echo "$package"
    else
      package=${package#"./$module"}
      echo "./${package#/}"
    fi
  done
}
