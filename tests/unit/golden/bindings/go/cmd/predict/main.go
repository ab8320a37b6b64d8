// Command predict runs brightness 7 on files and prints its answer: go run ./cmd/predict photo.ppm.
//
// A file holds a feed's raw bytes, or a picture of 8x8 as binary PPM or PGM.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"regexp"
	"strings"

	"coldforge.model/brightness"
	"coldforge.model/brightness/native"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: predict photo.ppm")
		os.Exit(2)
	}
	if err := predict(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "predict:", err)
		os.Exit(1)
	}
}

func predict(paths []string) error {
	feeds := brightness.NewFeeds()
	if err := readFeed(paths[0], "image", feeds.Image, true); err != nil {
		return err
	}
	model, err := native.Open(0)
	if err != nil {
		return err
	}
	defer model.Close()
	fetches, err := model.Run(feeds)
	if err != nil {
		return err
	}
	printClasses("tone", fetches.RankTone())
	fmt.Print("level:")
	for _, value := range fetches.Level[:1] {
		fmt.Printf(" %.6f", value)
	}
	fmt.Println("")
	fmt.Print("pixels:")
	for _, value := range fetches.Pixels[:8] {
		fmt.Printf(" %d", value)
	}
	fmt.Println(" ...")
	return nil
}

func printClasses(name string, classes []brightness.Class) {
	var shown []string
	for _, class := range classes {
		shown = append(shown, fmt.Sprintf("%s %.6f", class.Label, class.Probability))
	}
	fmt.Printf("%s: %s\n", name, strings.Join(shown, ", "))
}

// readFeed fills numbers from a file of exactly their bytes, or from a picture.
func readFeed(path, name string, numbers any, picture bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	size := binary.Size(numbers)
	if picture && len(content) != size {
		if content, err = pixels(content); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(content) != size {
		return fmt.Errorf("%s: %d bytes; feed %s takes %d", path, len(content), name, size)
	}
	return binary.Read(bytes.NewReader(content), binary.LittleEndian, numbers)
}

var header = regexp.MustCompile(`^P([56])(?:\s|#[^\n]*\n)+(\d{1,6})(?:\s|#[^\n]*\n)+(\d{1,6})(?:\s|#[^\n]*\n)+(\d{1,6})\s`)

// pixels are those of a picture, which must have the model's size: of a JPEG or PNG, or of a binary PPM (P6) or PGM
// (P5), which must have the model's colours, too.
func pixels(file []byte) ([]byte, error) {
	found := header.FindSubmatch(file)
	if found == nil {
		return decoded(file)
	}
	if string(found[4]) != "255" {
		return nil, errors.New("is no binary PPM or PGM of 8 bits")
	}
	mode := map[string]string{"5": "grey", "6": "rgb"}[string(found[1])]
	if size := string(found[2]) + "x" + string(found[3]); size != "8x8" || mode != "rgb" {
		return nil, fmt.Errorf("the picture is %s %s; the model takes 8x8 rgb", size, mode)
	}
	return file[len(found[0]):], nil
}

func decoded(file []byte) ([]byte, error) {
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("is no binary PPM or PGM, and no JPEG or PNG: %w", err)
	}
	bounds := picture.Bounds()
	if bounds.Dx() != 8 || bounds.Dy() != 8 {
		return nil, fmt.Errorf("the picture is %dx%d; the model takes 8x8", bounds.Dx(), bounds.Dy())
	}
	var pixels []byte
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
			pixels = append(pixels, c.R, c.G, c.B)
		}
	}
	return pixels, nil
}
