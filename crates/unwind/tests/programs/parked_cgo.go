// A goroutine that reads, in a program with code of C: the linker of C has made it.
package main

// static int twice(int n) { return 2 * n; }
import "C"

import (
	"fmt"
	"syscall"
)

//go:noinline
func inRead(fd int) int {
	var b [1]byte
	n, _ := syscall.Read(fd, b[:])
	return n + 1
}

//go:noinline
func worker(fd int) int {
	return inRead(fd) + int(C.twice(C.int(fd)))
}

func main() {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		panic(err)
	}
	done := make(chan int)
	go func() { done <- worker(fds[0]) }()
	fmt.Println("started")
	fmt.Println(<-done)
}
