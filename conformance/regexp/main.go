// What Go makes of regular expressions: whether it accepts them, in which words it refuses them, and
// what they match. `go run ./regexp >regexp/recorded.txt`, in the folder conformance, renews the table
// that crates/regexp/tests/recorded.rs holds the server's own parser against.
//
// A block begins with the pattern (P). An error (E) has the part of the pattern that is wrong, or `\=`
// for all of it. Otherwise each line (M) is a text, and the places of all matches in it. In all of them
// `\\`, `\n`, `\t` and `\r` are escaped, and `\*3(ab\)` stands for `ababab`.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"regexp/syntax"
	"strings"
)

const generated = 1600

// A text that may be long, as it is written and as it is.
type text struct{ written, whole string }

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`)

func plain(s string) text { return text{escapes.Replace(s), s} }

func times(n int, s string) text {
	return text{fmt.Sprintf(`\*%d(%s\)`, n, escapes.Replace(s)), strings.Repeat(s, n)}
}

func join(parts ...text) text {
	var all text
	for _, part := range parts {
		all.written += part.written
		all.whole += part.whole
	}
	return all
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	random := rand.New(rand.NewPCG(1, 36))
	seen := map[string]bool{}
	record := func(pattern text, subjects ...string) {
		if seen[pattern.whole] {
			return
		}
		seen[pattern.whole] = true
		fmt.Fprintf(out, "P %s\n", pattern.written)
		compiled, err := regexp.Compile(pattern.whole)
		var wrong *syntax.Error
		if errors.As(err, &wrong) {
			expression := escapes.Replace(wrong.Expr)
			if wrong.Expr == pattern.whole {
				expression = `\=`
			}
			fmt.Fprintf(out, "E %s: %s\n", wrong.Code, expression)
			return
		}
		for _, subject := range subjects {
			fmt.Fprintf(out, "M %s\n ", escapes.Replace(subject))
			for _, place := range compiled.FindAllStringIndex(subject, -1) {
				fmt.Fprintf(out, " %d-%d", place[0], place[1])
			}
			fmt.Fprintln(out)
		}
	}
	for _, pattern := range written {
		record(plain(pattern), subjects(random, pattern)...)
	}
	for _, pattern := range long() {
		record(pattern, "", "a", "ab", strings.Repeat("a", 12))
	}
	for range generated {
		pattern := (&grammar{random, 14}).expression()
		if random.IntN(3) == 0 {
			pattern = damaged(random, pattern)
		}
		record(plain(pattern), subjects(random, pattern)...)
	}
}

func long() []text {
	var all []text
	for _, n := range []int{998, 999, 1000, 1001} {
		all = append(all,
			join(times(n, "("), plain("a"), times(n, ")")),
			join(times(n, "(?:"), plain("a"), times(n, ")")),
			join(times(n, "(?:"), plain("a"), times(n, ")*")),
			join(times(n, "(?:"), plain("a"), times(n, "|b)")),
			join(times(n, "(?:"), plain("a"), times(n, "b*)?")),
			times(n, "("), times(n, "(a|"), times(n, "a|b"), times(n, "a*"), times(n, "[a-c]"),
			join(plain("a{"), plain(fmt.Sprint(n)), plain("}")),
		)
	}
	return append(all,
		times(20000, "a"), times(5000, "ab|"), times(2000, "(a)"), times(300, `\pL`), times(300, `[\pL0]`),
		times(20000, "(?:"), times(20000, ")"), times(20000, "["), times(5000, "[[:"), times(5000, "{1,"),
		times(100, "(a{10}){10}"), times(3400, "(?:a{10}){100}"), times(3500, "(?:x{1000})"),
		join(times(100, "a?"), times(100, "a")), join(times(50, "(a{0,20})"), plain("b")),
	)
}

// Texts to search: some of the pattern's own characters, some of others.
func subjects(random *rand.Rand, pattern string) []string {
	alphabet := []rune("aAbBkKsS019 _-.\n\t\u00e9\u00c9\u65e5\u03b1\u0391\u017f\u212a\U0001f600")
	own := []rune(pattern)
	all := []string{""}
	for range 4 {
		var subject strings.Builder
		for range 1 + random.IntN(10) {
			from := alphabet
			if random.IntN(2) == 0 && len(own) > 0 {
				from = own
			}
			subject.WriteRune(from[random.IntN(len(from))])
		}
		all = append(all, subject.String())
	}
	return all
}

// Expressions at random, most of them valid.
type grammar struct {
	random *rand.Rand
	left   int
}

func (g *grammar) one(of ...string) string { return of[g.random.IntN(len(of))] }

func (g *grammar) expression() string {
	parts := []string{g.sequence()}
	for g.random.IntN(4) == 0 {
		parts = append(parts, g.sequence())
	}
	return strings.Join(parts, "|")
}

func (g *grammar) sequence() string {
	var all strings.Builder
	for range g.random.IntN(5) {
		if g.left <= 0 {
			break
		}
		g.left--
		all.WriteString(g.atom())
		if g.random.IntN(3) == 0 {
			all.WriteString(g.repetition())
		}
	}
	return all.String()
}

func (g *grammar) repetition() string {
	counts := []int{0, 1, 2, 3, 5, 10, 31, 32, 33, 100, 500, 999, 1000, 1001}
	pick := func() int {
		if g.random.IntN(3) > 0 {
			return g.random.IntN(4)
		}
		return counts[g.random.IntN(len(counts))]
	}
	operator := g.one("*", "+", "?", "*", "+", "?", "{}", "{,2}",
		fmt.Sprintf("{%d}", pick()), fmt.Sprintf("{%d,}", pick()), fmt.Sprintf("{%d,%d}", pick(), pick()),
		fmt.Sprintf("{%d,%d}", g.random.IntN(2), pick()))
	if g.random.IntN(4) == 0 {
		operator += "?"
	}
	if g.random.IntN(25) == 0 {
		operator += g.one("*", "+", "{2}", "??")
	}
	return operator
}

func (g *grammar) atom() string {
	switch g.random.IntN(9) {
	case 0, 1, 2:
		return g.one("a", "b", "k", "s", "0", "_", " ", "-", "\n", "é", "日", "α", "K", "ab", "foo")
	case 3:
		return g.one(".", "^", "$", `\b`, `\B`, `\A`, `\z`)
	case 4:
		return g.escape()
	case 5, 6:
		return g.class()
	default:
		open := g.one("(", "(", "(?:", "(?i:", "(?s:", "(?m:", "(?U:", "(?i-s:", "(?P<n>", "(?<m1>", "(?i)(", "(?ms)(")
		return open + g.expression() + ")"
	}
}

func (g *grammar) escape() string {
	return g.one(`\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\n`, `\t`, `\.`, `\\`, `\-`, `\x41`, `\x{e9}`, `\x{1F600}`,
		`\101`, `\0`, `\pL`, `\PL`, `\p{Lu}`, `\P{Ll}`, `\p{Greek}`, `\p{^Greek}`, `\pN`, `\p{Han}`, `\Qa.b\E`, `\Q+`,
		`\p{Any}`, `\p{letter}`, `\p{LC}`, `\p{Zs}`, `\v`, `\f`, `\a`, `\_`)
}

func (g *grammar) class() string {
	var all strings.Builder
	all.WriteString(g.one("[", "[", "[^"))
	for range 1 + g.random.IntN(4) {
		all.WriteString(g.one("a", "b", "k", "_", "-", "a-c", "A-Z", "0-9", "é-日", "^", ".", "]", "[", "&&", "~~", "--",
			"[:alpha:]", "[:^digit:]", "[:word:]", "[:space:]", `\d`, `\W`, `\s`, `\pL`, `\P{Lu}`, `\n`, `\]`, `\-`, `\x41-\x43`,
			`\Q`, `\b`, "z-a", "[:nope:]", " -~"))
	}
	all.WriteString("]")
	return all.String()
}

// A pattern with something taken out of it, or put in.
func damaged(random *rand.Rand, pattern string) string {
	runes := []rune(pattern)
	more := []string{"(", ")", "[", "]", "{", "}", "*", "+", "?", "|", `\`, "^", "$", "(?", "(?P<", "(?<", "(?=", "(?!", "(?i", "(?-",
		"[:", "[[:", `\p`, `\p{`, `\x`, `\x{`, `\Q`, `\E`, `\C`, `\8`, `\1`, `\h`, `\é`, "{2", "{1000}", "{2,1}", "-", "&&"}
	at := random.IntN(len(runes) + 1)
	switch random.IntN(3) {
	case 0:
		if at < len(runes) {
			return string(runes[:at]) + string(runes[at+1:])
		}
	case 1:
		return string(runes[:at])
	}
	return string(runes[:at]) + more[random.IntN(len(more))] + string(runes[at:])
}
