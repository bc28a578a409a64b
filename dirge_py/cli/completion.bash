# dirge completion for bash
_dirge() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
@PLACE@
    COMPREPLY=()
    case "$place $prev" in
@VALUES@
    esac
    local offered=
    case "$place" in
@OFFERS@
    esac
    # Anything else is a prompt, or a file.
    [[ $cur == -* || $COMP_CWORD -eq $first ]] || offered=
    COMPREPLY=($(compgen -W "$offered" -- "$cur"))
}
complete -o default -F _dirge dirge
