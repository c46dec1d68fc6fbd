// Package flags writes options of kube-apiserver as a command line.
package flags

import (
	"bytes"
	"encoding/csv"
	"sort"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Changed are the flags by which s differs from the defaults. Feature gates and versions are those of the registry and not
// of s: external.GateFlags has them.
func Changed(s *options.ServerRunOptions) []string {
	now, defaults := byName(s), byName(options.NewServerRunOptions())
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	sort.Strings(names)
	var flags []string
	for _, name := range names {
		value := now[name].Value
		switch name {
		case "feature-gates", "emulated-version", "min-compatibility-version":
		case "tls-sni-cert-key": // its text cannot be parsed again
			for _, pair := range s.SecureServing.SNICertKeys {
				flag := pair.CertFile + "," + pair.KeyFile
				if len(pair.Names) > 0 {
					flag += ":" + strings.Join(pair.Names, ",")
				}
				flags = append(flags, "--"+name+"="+flag)
			}
		case "runtime-config": // the callbacks of tests write to the map itself
			for key, on := range s.APIEnablement.RuntimeConfig {
				flags = append(flags, "--"+name+"="+key+"="+on)
			}
		default:
			if old := defaults[name]; old == nil || old.Value.String() != value.String() {
				flags = append(flags, written(name, value)...)
			}
		}
	}
	return flags
}

// written is a flag with its value, or several where each item needs one.
func written(name string, value pflag.Value) []string {
	list, ok := value.(pflag.SliceValue)
	if !ok {
		return []string{"--" + name + "=" + value.String()}
	}
	items := list.GetSlice()
	if value.Type() != "stringArray" {
		var line bytes.Buffer
		w := csv.NewWriter(&line)
		w.Write(items)
		w.Flush()
		return []string{"--" + name + "=" + strings.TrimSuffix(line.String(), "\n")}
	}
	var flags []string
	for _, item := range items {
		flags = append(flags, "--"+name+"="+item)
	}
	return flags
}

func byName(s *options.ServerRunOptions) map[string]*pflag.Flag {
	all := map[string]*pflag.Flag{}
	sets := s.Flags()
	for _, set := range sets.FlagSets {
		set.VisitAll(func(f *pflag.Flag) { all[f.Name] = f })
	}
	return all
}
