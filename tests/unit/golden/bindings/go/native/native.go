// Package native runs brightness 7 by its native library, libmodel.so in this folder. With the build tag "static" the
// library becomes part of the program, from libmodel.a.
package native

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo !static LDFLAGS: -L${SRCDIR} -lmodel -Wl,-rpath,${SRCDIR}
#cgo static LDFLAGS: ${SRCDIR}/libmodel.a -lm -lpthread
#include "model.h"

// One argument for each tensor: Go's rules let C have no memory of Go's that holds pointers to more of it.
static cf_status run_model(cf_model *model, const void *feed_image, void *fetch_light, void *fetch_level, void *fetch_pixels) {
	const cf_feed feeds[] = {{feed_image, 192u}};
	const cf_fetch fetches[] = {{fetch_light, 8u}, {fetch_level, 4u}, {fetch_pixels, 192u}};
	return cf_run(model, feeds, 1, fetches, 3);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"coldforge.model/brightness"
)

// Model is the model, opened. Goroutines that call it wait for each other.
type Model struct {
	lock  sync.Mutex
	model *C.cf_model
}

// Open opens the model for up to so many threads; 0 lets it choose. Close gives its memory back.
func Open(threads uint32) (*Model, error) {
	if version := C.cf_abi_version(); version != C.CF_ABI_VERSION {
		return nil, fmt.Errorf("libmodel has ABI %d, not %d", version, C.CF_ABI_VERSION)
	}
	if !strings.Contains(Describe(), `"model":{"name":"`+brightness.Name+`",`) {
		return nil, errors.New("the library holds another model than " + brightness.Name)
	}
	model := &Model{}
	// cf_last_error belongs to all threads; the lock keeps a failure and its words together.
	opening.Lock()
	defer opening.Unlock()
	if C.cf_open(C.uint32_t(threads), &model.model) != C.CF_OK {
		return nil, errors.New(C.GoString(C.cf_last_error(nil)))
	}
	return model, nil
}

var opening sync.Mutex

// Describe is what the library says of itself, as JSON.
func Describe() string { return C.GoString(C.cf_describe()) }

// Run is one inference.
func (m *Model) Run(feeds brightness.Feeds) (brightness.Fetches, error) {
	fetches := brightness.NewFetches()
	if err := brightness.Check(feeds); err != nil {
		return fetches, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.model == nil {
		return fetches, errors.New("the model is closed")
	}
	status := C.run_model(m.model,
		pointer(feeds.Image),
		pointer(fetches.Light),
		pointer(fetches.Level),
		pointer(fetches.Pixels),
	)
	if status != C.CF_OK {
		return fetches, errors.New(C.GoString(C.cf_last_error(m.model)))
	}
	return fetches, nil
}

// Close gives the model's memory back; a later Run is an error.
func (m *Model) Close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	C.cf_close(m.model)
	m.model = nil
}

// pointer is that of the first number, nil where there is none.
func pointer[T any](numbers []T) unsafe.Pointer {
	if len(numbers) == 0 {
		return nil
	}
	return unsafe.Pointer(&numbers[0])
}
