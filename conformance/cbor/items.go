package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// Major types.
const (
	unsigned = iota
	negative
	byteString
	textString
	array
	mapping
	tag
	other
)

// A data item, to be changed.
type item struct {
	major byte
	// The argument of numbers, tags, and simple values and floats with their length.
	number uint64
	length byte
	text   []byte
	// Elements, keys and values in turns, chunks of an indefinite string, or what is tagged.
	inside     []*item
	indefinite bool
}

func head(major byte, number uint64) []byte {
	major <<= 5
	switch {
	case number < 24:
		return []byte{major | byte(number)}
	case number < 1<<8:
		return []byte{major | 24, byte(number)}
	case number < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{major | 25}, uint16(number))
	case number < 1<<32:
		return binary.BigEndian.AppendUint32([]byte{major | 26}, uint32(number))
	default:
		return binary.BigEndian.AppendUint64([]byte{major | 27}, number)
	}
}

func (i *item) encode() []byte {
	var out []byte
	switch i.major {
	case byteString, textString:
		if !i.indefinite {
			return append(head(i.major, uint64(len(i.text))), i.text...)
		}
	case array, mapping:
		if !i.indefinite {
			count := len(i.inside)
			if i.major == mapping {
				count /= 2
			}
			out = head(i.major, uint64(count))
		}
	case other:
		switch i.length {
		case 2:
			return binary.BigEndian.AppendUint16([]byte{0xf9}, uint16(i.number))
		case 4:
			return binary.BigEndian.AppendUint32([]byte{0xfa}, uint32(i.number))
		case 8:
			return binary.BigEndian.AppendUint64([]byte{0xfb}, i.number)
		}
		return head(other, i.number)
	default:
		out = head(i.major, i.number)
	}
	if i.indefinite {
		out = []byte{i.major<<5 | 31}
	}
	for _, each := range i.inside {
		out = append(out, each.encode()...)
	}
	if i.indefinite {
		out = append(out, 0xff)
	}
	return out
}

// The item that some bytes are, which have no indefinite lengths.
func readItem(data []byte) *item {
	whole, _ := read(data)
	return whole
}

func read(data []byte) (*item, []byte) {
	major, info := data[0]>>5, data[0]&31
	data = data[1:]
	number, length := uint64(info), byte(0)
	if info >= 24 {
		length = 1 << (info - 24)
		number = 0
		for range length {
			number = number<<8 | uint64(data[0])
			data = data[1:]
		}
	}
	whole := &item{major: major, number: number, length: length}
	count := 0
	switch major {
	case byteString, textString:
		whole.text, data = data[:number], data[number:]
	case array:
		count = int(number)
	case mapping:
		count = 2 * int(number)
	case tag:
		count = 1
	}
	for range count {
		var each *item
		each, data = read(data)
		whole.inside = append(whole.inside, each)
	}
	return whole, data
}

// All items of an item, itself first; keys of maps where they are wanted.
func (i *item) all(keys bool) []*item {
	found := []*item{i}
	for at, each := range i.inside {
		if keys || i.major != mapping || at%2 == 1 {
			found = append(found, each.all(keys)...)
		}
	}
	return found
}

// Changes an item somewhere.
func (i *item) change(random *rand.Rand) {
	all := i.all(random.IntN(4) == 0)
	at := all[random.IntN(len(all))]
	switch random.IntN(12) {
	case 0:
		*at = *randomItem(random, 1)
	case 1, 2:
		tags := []uint64{0, 1, 2, 21, 22, 23, 24, 99, 55799}
		inner := *at
		*at = item{major: tag, number: tags[random.IntN(len(tags))], inside: []*item{&inner}}
	case 3, 4:
		if at.major == byteString || at.major == textString {
			at.major ^= 1
		} else {
			*at = *scalar(random)
		}
	case 5:
		switch at.major {
		case byteString, textString:
			cut := 0
			if len(at.text) > 0 {
				cut = random.IntN(len(at.text))
			}
			first := &item{major: at.major, text: at.text[:cut]}
			second := &item{major: at.major, text: at.text[cut:]}
			*at = item{major: at.major, indefinite: true, inside: []*item{first, second}}
		case array, mapping:
			at.indefinite = true
		}
	case 6:
		// An entry twice.
		if at.major == mapping && len(at.inside) > 0 {
			entry := 2 * random.IntN(len(at.inside)/2)
			to := 2 * random.IntN(len(at.inside)/2+1)
			at.inside = slices.Insert(slices.Clone(at.inside), to, at.inside[entry], scalar(random))
		}
	case 7, 8:
		// An entry that nobody knows.
		if at.major == mapping {
			key := &item{major: byteString, text: []byte("unknown")}
			if random.IntN(3) == 0 {
				key = scalar(random)
			}
			to := 2 * random.IntN(len(at.inside)/2+1)
			at.inside = slices.Insert(slices.Clone(at.inside), to, key, scalar(random))
		}
	case 9:
		*at = item{major: other, number: 22}
	case 10:
		at.text = append(slices.Clone(at.text), byte(random.IntN(256)))
	case 11:
		*at = *scalar(random)
	}
}

func scalar(random *rand.Rand) *item {
	switch random.IntN(9) {
	case 0:
		return &item{major: unsigned, number: random.Uint64() >> random.IntN(64)}
	case 1:
		return &item{major: negative, number: random.Uint64() >> random.IntN(64)}
	case 2, 3:
		texts := []string{"", "a", "b", "kind", "10", "1Gi", "YWI=", "2024-02-03T04:05:06Z", "\xff", "é"}
		return &item{major: byte(byteString + random.IntN(2)), text: []byte(texts[random.IntN(len(texts))])}
	case 4:
		return &item{major: other, number: uint64(20 + random.IntN(5))}
	case 5:
		return &item{major: other, length: 2, number: uint64(random.IntN(1 << 16))}
	case 6:
		return &item{major: other, length: 4, number: uint64(random.Uint32())}
	case 7:
		return &item{major: other, length: 8, number: random.Uint64()}
	default:
		return &item{major: other, number: 21}
	}
}

func randomItem(random *rand.Rand, depth int) *item {
	if depth == 0 || random.IntN(4) == 0 {
		return scalar(random)
	}
	whole := &item{major: array, indefinite: random.IntN(4) == 0}
	if random.IntN(2) == 0 {
		whole.major = mapping
	}
	for range random.IntN(4) {
		if whole.major == mapping {
			keys := []string{"a", "b", "c", "aa", "kind"}
			key := &item{major: byteString, text: []byte(keys[random.IntN(len(keys))])}
			whole.inside = append(whole.inside, key)
		}
		whole.inside = append(whole.inside, randomItem(random, depth-1))
	}
	return whole
}
