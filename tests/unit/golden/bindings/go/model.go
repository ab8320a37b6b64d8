// Package brightness is brightness 7, compiled by coldforge: what it takes and what it gives.
//
// Package native beside it runs the native library (cgo), package wasm the WebAssembly module in an engine such as
// wazero, without cgo. Generated.
package brightness

import (
	"fmt"
	"sort"
)

const (
	Name    = "brightness"
	Version = "7"
	Batch   = 1 // items in a run
)

// Feeds is what the model takes. Tensors are dense and row-major; a bool is a byte, 0 or 1.
type Feeds struct {
	// uint8 [1, 8, 8, 3]: 8×8 pixels of red, green, blue, 0..255, row by row; any scaling is in the model
	Image []uint8
}

// Fetches is what the model gives.
type Fetches struct {
	// float32 [1, 2]
	Light []float32
	// float32 [1, 1]
	Level []float32
	// uint8 [1, 8, 8, 3]
	Pixels []uint8
}

// NewFeeds has every feed in its size, full of zeros.
func NewFeeds() Feeds {
	var f Feeds
	f.Image = make([]uint8, 192)
	return f
}

// NewFetches has room for every fetch.
func NewFetches() Fetches {
	var f Fetches
	f.Light = make([]float32, 2)
	f.Level = make([]float32, 1)
	f.Pixels = make([]uint8, 192)
	return f
}

// Check returns an error that names the first feed of a wrong size.
func Check(f Feeds) error {
	if err := check("image", len(f.Image), 192); err != nil {
		return err
	}
	return nil
}

func check(feed string, numbers, right int) error {
	if numbers != right {
		return fmt.Errorf("feed %s takes %d numbers, not %d", feed, right, numbers)
	}
	return nil
}

// LabelsTone are the labels of output "tone", which is 1 row of 2 classes.
var LabelsTone = [...]string{
	"light", "dark",
}

// RankTone gives the likeliest classes of output "tone", the best first.
func (f *Fetches) RankTone() []Class {
	return rank(f.Light[0:2], LabelsTone[:], 2)
}

// Class is a label and its probability; Index is the label's place in the model's order.
type Class struct {
	Index       int
	Label       string
	Probability float64
}

type number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// rank keeps equal ones in the model's order; NaN, which is not equal to itself, comes last.
func rank[T number](values []T, labels []string, top int) []Class {
	classes := make([]Class, len(values))
	for i, value := range values {
		classes[i] = Class{i, labels[i], float64(value)}
	}
	sort.SliceStable(classes, func(i, j int) bool {
		a, b := classes[i].Probability, classes[j].Probability
		return a > b || (a == a && b != b)
	})
	return classes[:top]
}
