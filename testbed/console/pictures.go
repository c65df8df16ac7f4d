package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/testbed/browser"
)

// widths are those of a desk, a tablet and a phone.
var widths = []browser.View{{Width: 1440, Height: 900}, {Width: 768, Height: 1024}, {Width: 390, Height: 844}}

// Pictures takes a picture of each page in each width, light and dark, into the folder.
func Pictures(ctx context.Context, o Options) (err error) {
	w, err := newWorld(ctx, o, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end(o, err)) }()
	payments, err := w.fill(ctx, ordinary, []string{"ops"})
	if err != nil {
		return err
	}
	link, err := w.console(ctx, "console-pictures", "operate")
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	k := &walker{hand: hands[0], names: payments["ops"], out: o, tally: &tally{}}
	k.judges = false
	if k.tab, err = b.Open(browser.View{}); err != nil {
		return err
	}
	defer k.tab.Close()
	if err := k.login(ctx, link); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	// With two points a chart has no scale yet.
	err = await.Until(ctx, time.Minute, "the charts to have points", func() (bool, error) {
		return k.tab.Is(`fetch("/live.json").then((r) => r.json()).then((columns) => columns[0].length > 4)`)
	})
	if err != nil {
		return err
	}
	taken := 0
	for _, step := range Steps {
		if step.Picture == "" {
			continue
		}
		n, err := k.pictures(step)
		if err != nil {
			return fmt.Errorf("%s: %w", step.Picture, err)
		}
		taken += n
	}
	o.say("%d pictures are in %s", taken, o.Folder)
	return nil
}

// pictures takes those of one page.
func (k *walker) pictures(step Step) (taken int, err error) {
	address := step.Leads
	if address == "" {
		address = step.At
	}
	for _, view := range widths {
		for _, view.Scheme = range []browser.Scheme{browser.Light, browser.Dark} {
			if err := k.tab.Look(view); err != nil {
				return taken, err
			}
			if _, err := k.tab.Go(k.base + k.names.in(address)); err != nil {
				return taken, err
			}
			if err := k.tab.Quiet(); err != nil {
				return taken, err
			}
			picture, err := k.tab.Picture(k.out.Height)
			if err == nil {
				picture, err = smaller(picture)
			}
			if err != nil {
				return taken, err
			}
			file := fmt.Sprintf("%s-%d-%s.png", step.Picture, view.Width, view.Scheme)
			if err := os.WriteFile(filepath.Join(k.out.Folder, file), picture, 0o644); err != nil {
				return taken, err
			}
			taken++
		}
	}
	return taken, nil
}

// smaller encodes a picture with a palette of the colours that it has most of; the others become the nearest of
// them. Pages have few, and shades of them at the edges of letters.
func smaller(picture []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	counts := make(map[color.RGBA]int)
	bounds := from.Bounds()
	whole := image.NewRGBA(bounds)
	draw.Draw(whole, bounds, from, bounds.Min, draw.Src)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[whole.RGBAAt(x, y)]++
		}
	}
	to := image.NewPaletted(bounds, palette(counts))
	nearest := make(map[color.RGBA]uint8, len(counts))
	for one := range counts {
		nearest[one] = uint8(to.Palette.Index(one))
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[whole.RGBAAt(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to)
	return out.Bytes(), err
}

// palette are the colours that are most frequent.
func palette(counts map[color.RGBA]int) color.Palette {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var chosen color.Palette
	for _, one := range all[:min(len(all), 256)] {
		chosen = append(chosen, one)
	}
	return chosen
}
