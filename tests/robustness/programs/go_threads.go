// SPDX-License-Identifier: Apache-2.0 OR MIT

// Goroutines behind a mutex, in a static binary: the loader never runs, so nothing can be preloaded.
package main

import (
	"fmt"
	"sync"
)

func main() {
	var (
		mutex sync.Mutex
		group sync.WaitGroup
		total int
	)
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 10007 {
				mutex.Lock()
				total++
				mutex.Unlock()
			}
		}()
	}
	group.Wait()
	fmt.Println("total", total)
}
