package await

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
