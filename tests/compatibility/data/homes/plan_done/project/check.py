assert open('total.txt').read() == '42\n'
