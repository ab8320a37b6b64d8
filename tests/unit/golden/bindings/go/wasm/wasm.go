// Package wasm runs brightness 7 as WebAssembly, in whatever engine: it needs an instance's memory and functions, in the
// form that github.com/tetratelabs/wazero has them. No cgo, no imports of the module's own.
//
//	engine := wazero.NewRuntime(ctx)
//	instance, err := engine.Instantiate(ctx, wasm.Module)
//	model, err := wasm.Open[api.Function, api.Memory](ctx, instance)
//	fetches, err := model.Run(ctx, brightness.NewFeeds())
//
// Module is there if the bindings were made with `coldforge wasm`'s modules at hand.
package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"coldforge.model/brightness"
)

const abiVersion = 1

// Function is an exported function; wazero's api.Function is one.
type Function interface {
	Call(ctx context.Context, params ...uint64) ([]uint64, error)
}

// Memory is an instance's memory; wazero's api.Memory is one.
type Memory interface {
	Read(offset, byteCount uint32) ([]byte, bool)
	Write(offset uint32, v []byte) bool
}

// Instance is a module that was instantiated; wazero's api.Module is an Instance[api.Function, api.Memory].
type Instance[F Function, M Memory] interface {
	ExportedFunction(name string) F
	Memory() M
}

// Model is the model, opened in an instance. Goroutines that call it wait for each other.
type Model struct {
	lock      sync.Mutex
	memory    Memory
	functions map[string]Function
	model     uint64
	feeds     []uint32 // addresses, in the order of the model's feeds
	fetches   []uint32
	inputs    uint32 // of the array of cf_feed
	outputs   uint32
}

var exports = []string{
	"cf_abi_version", "cf_describe", "cf_open", "cf_run", "cf_close", "cf_last_error", "cf_alloc", "cf_free",
}

var feedSizes = []uint32{192}
var fetchSizes = []uint32{8, 4, 192}

// Open opens the model in an instance of its module, which it has to itself. Close gives the memory back.
func Open[F Function, M Memory](ctx context.Context, instance Instance[F, M]) (*Model, error) {
	m := &Model{memory: instance.Memory(), functions: map[string]Function{}}
	for _, name := range exports {
		function := Function(instance.ExportedFunction(name))
		if function == nil {
			return nil, errors.New("the module exports no " + name)
		}
		m.functions[name] = function
	}
	if version, err := m.call(ctx, "cf_abi_version"); err != nil || version != abiVersion {
		return nil, fmt.Errorf("the module's ABI is %d, not %d: %w", version, abiVersion, err)
	}
	description, err := m.Describe(ctx)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(description, `"model":{"name":"`+brightness.Name+`",`) {
		return nil, errors.New("the module holds another model than " + brightness.Name)
	}
	return m, m.open(ctx)
}

func (m *Model) open(ctx context.Context) error {
	place, err := m.allocate(ctx, 4)
	if err != nil {
		return err
	}
	status, err := m.call(ctx, "cf_open", 0, uint64(place))
	if err != nil {
		return err
	}
	if status != 0 {
		return m.failure(ctx, 0)
	}
	pointer, ok := m.memory.Read(place, 4)
	if !ok {
		return errOutside
	}
	m.model = uint64(binary.LittleEndian.Uint32(pointer))
	if _, err := m.call(ctx, "cf_free", uint64(place)); err != nil {
		return err
	}
	if m.feeds, m.inputs, err = m.buffers(ctx, feedSizes); err != nil {
		return err
	}
	m.fetches, m.outputs, err = m.buffers(ctx, fetchSizes)
	return err
}

// Describe is what the module says of itself, as JSON.
func (m *Model) Describe(ctx context.Context) (string, error) {
	address, err := m.call(ctx, "cf_describe")
	if err != nil {
		return "", err
	}
	return m.text(uint32(address))
}

// Run is one inference.
func (m *Model) Run(ctx context.Context, feeds brightness.Feeds) (brightness.Fetches, error) {
	fetches := brightness.NewFetches()
	if err := brightness.Check(feeds); err != nil {
		return fetches, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.model == 0 {
		return fetches, errors.New("the model is closed")
	}
	for i, numbers := range []any{feeds.Image} {
		var content bytes.Buffer
		if err := binary.Write(&content, binary.LittleEndian, numbers); err != nil {
			return fetches, err
		}
		if !m.memory.Write(m.feeds[i], content.Bytes()) {
			return fetches, errOutside
		}
	}
	status, err := m.call(ctx, "cf_run",
		m.model, uint64(m.inputs), uint64(len(feedSizes)), uint64(m.outputs), uint64(len(fetchSizes)))
	if err != nil {
		return fetches, err
	}
	if status != 0 {
		return fetches, m.failure(ctx, m.model)
	}
	for i, numbers := range []any{fetches.Light, fetches.Level, fetches.Pixels} {
		content, ok := m.memory.Read(m.fetches[i], fetchSizes[i])
		if !ok {
			return fetches, errOutside
		}
		if err := binary.Read(bytes.NewReader(content), binary.LittleEndian, numbers); err != nil {
			return fetches, err
		}
	}
	return fetches, nil
}

// Close gives the model's memory back to its instance.
func (m *Model) Close(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.model == 0 {
		return nil
	}
	_, err := m.call(ctx, "cf_close", m.model)
	m.model = 0
	for _, address := range append(append(m.feeds, m.fetches...), m.inputs, m.outputs) {
		if _, failed := m.call(ctx, "cf_free", uint64(address)); failed != nil {
			err = failed
		}
	}
	return err
}

var errOutside = errors.New("an address is outside of the module's memory")

// buffers allocates one buffer for each size, and the array of cf_feed (or cf_fetch) that names them.
func (m *Model) buffers(ctx context.Context, sizes []uint32) ([]uint32, uint32, error) {
	var addresses, rows []uint32
	for _, size := range sizes {
		address, err := m.allocate(ctx, size)
		if err != nil {
			return nil, 0, err
		}
		addresses, rows = append(addresses, address), append(rows, address, size)
	}
	array, err := m.allocate(ctx, uint32(4*len(rows)))
	if err != nil {
		return nil, 0, err
	}
	var content bytes.Buffer
	if err := binary.Write(&content, binary.LittleEndian, rows); err != nil {
		return nil, 0, err
	}
	if !m.memory.Write(array, content.Bytes()) {
		return nil, 0, errOutside
	}
	return addresses, array, nil
}

func (m *Model) allocate(ctx context.Context, size uint32) (uint32, error) {
	address, err := m.call(ctx, "cf_alloc", uint64(size))
	if err == nil && address == 0 {
		err = fmt.Errorf("there are no %d bytes of memory left", size)
	}
	return uint32(address), err
}

// call gives a function's result, 0 of one that has none.
func (m *Model) call(ctx context.Context, name string, arguments ...uint64) (uint64, error) {
	results, err := m.functions[name].Call(ctx, arguments...)
	if err != nil || len(results) == 0 {
		return 0, err
	}
	return results[0] & 0xffffffff, nil
}

func (m *Model) failure(ctx context.Context, model uint64) error {
	address, err := m.call(ctx, "cf_last_error", model)
	if err != nil {
		return err
	}
	text, err := m.text(uint32(address))
	if err != nil {
		return err
	}
	return errors.New(text)
}

// text is the C string at an address.
func (m *Model) text(address uint32) (string, error) {
	var text []byte
	for {
		// By pieces that do not reach over the end of a page, which may be the memory's.
		piece, ok := m.memory.Read(address, 4096-address%4096)
		if !ok {
			return "", errOutside
		}
		if end := bytes.IndexByte(piece, 0); end >= 0 {
			return string(append(text, piece[:end]...)), nil
		}
		text = append(text, piece...)
		address += uint32(len(piece))
	}
}
