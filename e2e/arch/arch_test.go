package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what go list says of one package.
type listed struct {
	ImportPath   string
	Dir          string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// ours gives the module-relative path, or false for what is not of the project.
func ours(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}

func matches(pattern, path string) bool {
	prefix, sub := strings.CutSuffix(pattern, "...")
	if !sub {
		return pattern == path
	}
	return strings.HasPrefix(path+"/", prefix)
}

func anyMatch(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// ruleOf finds a package's entry, exact ones first.
func ruleOf(path string) (key string, r rule, ok bool) {
	if r, ok := table[path]; ok {
		return path, r, true
	}
	for key, r := range table {
		if matches(key, path) {
			return key, r, true
		}
	}
	return "", rule{}, false
}

// TestImports holds every package to the table.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		path, _ := ours(p.ImportPath)
		key, r, ok := ruleOf(path)
		if !ok {
			t.Errorf("%s: not in the table of e2e/arch/arch.go", path)
			continue
		}
		used[key] = true
		for _, imp := range p.Imports {
			if of, mine := ours(imp); mine && !anyMatch(r.imports, of) {
				t.Errorf("%s imports %s, which its row does not allow", path, of)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if of, mine := ours(imp); mine && of != path && !anyMatch(r.imports, of) && !anyMatch(testOnly, of) {
				t.Errorf("%s imports %s in a test, which its row does not allow", path, of)
			}
		}
		for _, imp := range p.Imports {
			if lib, holders := door(imp); lib != "" && !anyMatch(holders, path) {
				t.Errorf("%s imports %s; the doors to it are %v", path, imp, holders)
			}
		}
		if p.Doc == "" && len(p.GoFiles) > 0 && !strings.HasPrefix(path, "proto/") {
			t.Errorf("%s has no package comment", path)
		}
	}
	for key := range table {
		if !used[key] && !planned[key] {
			t.Errorf("the table lists %s, which does not exist", key)
		}
	}
}

// door finds the longest library prefix that has doors.
func door(imp string) (lib string, holders []string) {
	for l, h := range doors {
		if strings.HasPrefix(imp, l) && len(l) > len(lib) {
			lib, holders = l, h
		}
	}
	return lib, holders
}

// impure lists what a core may not import.
var impure = []string{"os", "net", "sync", "context", "log", "log/slog", "math/rand", "math/rand/v2", "sync/atomic"}

// TestCoresArePure looks for effects in packages marked pure.
func TestCoresArePure(t *testing.T) {
	for _, p := range packages(t) {
		path, _ := ours(p.ImportPath)
		if _, r, _ := ruleOf(path); !r.pure {
			continue
		}
		for _, name := range p.GoFiles {
			checkPure(t, filepath.Join(p.Dir, name))
		}
	}
}

func checkPure(t *testing.T, file string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range f.Imports {
		if slices.Contains(impure, strings.Trim(imp.Path.Value, `"`)) {
			t.Errorf("%s: a core imports %s", fset.Position(imp.Pos()), imp.Path.Value)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		what := ""
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "starts a goroutine"
		case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			what = "uses a channel"
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" &&
				slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "NewTimer", "Tick", "NewTicker", "AfterFunc"}, n.Sel.Name) {
				what = "reads the clock"
			}
		}
		if what != "" {
			t.Errorf("%s: a core %s", fset.Position(n.Pos()), what)
		}
		return true
	})
}
