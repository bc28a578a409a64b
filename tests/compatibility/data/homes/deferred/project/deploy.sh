touch by_script.txt
