package external

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// Gates are the feature gates and versions of one server: those of this process, which a test may have set, and what
// the server's options make of them.
type Gates struct {
	Registry basecompatibility.ComponentGlobalsRegistry
	gate     featuregate.MutableVersionedFeatureGate
	version  basecompatibility.MutableEffectiveVersion
}

// NewGates copies those of this process.
func NewGates() (*Gates, error) {
	g := &Gates{
		Registry: basecompatibility.NewComponentGlobalsRegistry(),
		gate:     utilfeature.DefaultMutableFeatureGate.DeepCopy(),
		version:  compatibility.DefaultKubeEffectiveVersionForTest(),
	}
	g.version.SetEmulationVersion(g.gate.EmulationVersion())
	g.version.SetMinCompatibilityVersion(g.gate.MinCompatibilityVersion())
	return g, g.Registry.Register(basecompatibility.DefaultKubeComponent, g.version, g.gate)
}

// Enabled says whether the server has a feature.
func (g *Gates) Enabled(name featuregate.Feature) bool { return g.gate.Enabled(name) }

// Adopt gives this process, for the rest of the test, what the options made of the gates: tests ask their own process.
func (g *Gates) Adopt(t featuregatetesting.TB) {
	own := utilfeature.DefaultMutableFeatureGate
	if !g.gate.EmulationVersion().EqualTo(own.EmulationVersion()) || !g.gate.MinCompatibilityVersion().EqualTo(own.MinCompatibilityVersion()) {
		featuregatetesting.SetFeatureGateVersionsDuringTest(t, own, g.version.EmulationVersion(), g.version.MinCompatibilityVersion())
	}
	changed := map[featuregate.Feature]bool{}
	for name := range own.GetAll() {
		if on := g.gate.Enabled(name); on != own.Enabled(name) {
			changed[name] = on
		}
	}
	if len(changed) > 0 {
		featuregatetesting.SetFeatureGatesDuringTest(t, own, changed)
	}
}

// GateFlags are the flags that give a server the gates and the emulated version of this process.
func GateFlags() []string {
	var flags []string
	own := utilfeature.DefaultMutableFeatureGate
	emulated, binary := own.EmulationVersion(), compatibility.DefaultKubeEffectiveVersionForTest().BinaryVersion()
	if emulated.Major() != binary.Major() || emulated.Minor() != binary.Minor() {
		flags = append(flags, fmt.Sprintf("--emulated-version=%d.%d", emulated.Major(), emulated.Minor()),
			"--runtime-config-emulation-forward-compatible=true")
	}
	var set []string
	for name, spec := range own.GetAll() {
		if on := own.Enabled(name); on != spec.Default {
			set = append(set, fmt.Sprintf("%s=%v", name, on))
		}
	}
	if len(set) > 0 {
		sort.Strings(set)
		flags = append(flags, "--feature-gates="+strings.Join(set, ","))
	}
	return flags
}

// Without leaves out flags by name, with their values, which may be arguments of their own.
func Without(flags []string, names ...string) []string {
	var kept []string
	for i := 0; i < len(flags); i++ {
		name, _, valued := strings.Cut(strings.TrimPrefix(flags[i], "--"), "=")
		end := i + 1
		if !valued && end < len(flags) && !strings.HasPrefix(flags[end], "--") {
			end++
		}
		if !slices.Contains(names, name) {
			kept = append(kept, flags[i:end]...)
		}
		i = end - 1
	}
	return kept
}
