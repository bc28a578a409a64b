#compdef dirge
_dirge() {
@PLACE@
    case "$place" in
@OFFERS@
    esac
}
if [ "$funcstack[1]" = "_dirge" ]; then _dirge "$@"; else compdef _dirge dirge; fi
