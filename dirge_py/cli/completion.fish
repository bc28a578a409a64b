# dirge completion for fish
function __dirge_place
    set -l words (commandline -opc)[2..-1]
    for count in 2 1
        if test (count $words) -ge $count
            set -l name (string join " " -- $words[1..$count])
@KNOWN@
                echo $name
                return
            end
        end
    end
    echo ""
end
function __dirge_at
    test (__dirge_place) = "$argv[1]"
end
function __dirge_first
    __dirge_at "$argv[1]"; and test (count (commandline -opc)) -eq $argv[2]
end
@OFFERS@
