// Threads of Go that wait in the kernel: a blocking read, a timer, and the runtime's own.
package main

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
	return inRead(fd) + 1
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
