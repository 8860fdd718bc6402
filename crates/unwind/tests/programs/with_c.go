// Code of C beside that of another file: the linker of C makes the program then.
package main

// static int twice(int n) { return 2 * n; }
import "C"

var four = C.twice(2)
