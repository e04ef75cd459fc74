
#include <eml_net.h>
static const float mynet_layer_0_biases[16] = { -0.012364f, 0.117337f, 0.423065f, -0.674127f, 0.216261f, -0.022470f, 1.616219f, 0.028150f, 0.132391f, 1.175425f, 0.152642f, 1.089137f, 0.140982f, -0.716918f, -0.196048f, -0.822392f };
static const float mynet_layer_0_weights[64] = { 0.266762f, 0.245642f, 0.145298f, 0.032830f, 0.242170f, 0.129879f, -0.302587f, 0.246399f, 0.235952f, -0.269763f, 0.291547f, -0.200788f, 0.252959f, -0.238431f, -0.095825f, -0.090922f, -0.104788f, 0.147791f, 0.120062f, 0.054220f, 0.197684f, 0.177402f, -0.152764f, 0.122610f, -0.065768f, -0.086842f, 0.012040f, -0.072542f, 0.123400f, -0.111294f, -0.028695f, 0.172932f, 0.054552f, 0.197453f, 0.070794f, 0.033839f, 0.256378f, 0.161406f, -0.040842f, 0.180906f, 0.114301f, -0.152441f, 0.158409f, -0.410379f, 0.185159f, 0.252963f, -0.050484f, -0.024412f, -0.092293f, -0.029376f, 0.065554f, 0.010030f, -0.016618f, 0.029972f, 0.028664f, -0.064518f, -0.095414f, 0.082463f, -0.049230f, -0.047562f, -0.062450f, 0.240917f, 0.032877f, -0.046792f };
static const float mynet_layer_1_biases[1] = { 0.430287f };
static const float mynet_layer_1_weights[16] = { -0.887974f, -0.908799f, -1.042362f, 0.163963f, -0.813016f, -1.115646f, 0.657059f, -1.170006f, -0.241593f, 1.333472f, -0.898709f, 1.218232f, -1.690348f, 1.417066f, -0.104142f, -0.608919f };
static float mynet_buf1[16];
static float mynet_buf2[16];
static const EmlNetLayer mynet_layers[2] = { 
{ 16, 4, mynet_layer_0_weights, mynet_layer_0_biases, EmlNetActivationRelu }, 
{ 1, 16, mynet_layer_1_weights, mynet_layer_1_biases, EmlNetActivationLogistic } };
static EmlNet mynet = { 2, mynet_layers, mynet_buf1, mynet_buf2, 16 };

    int32_t
    mynet_predict(const float *features, int32_t n_features)
    {
        return eml_net_predict(&mynet, features, n_features);
    }
    

    int32_t
    mynet_regress(const float *features, int32_t n_features, float *out, int32_t out_length)
    {
        return eml_net_regress(&mynet, features, n_features, out, out_length);
    }
    

    float
    mynet_regress1(const float *features, int32_t n_features)
    {
        return eml_net_regress1(&mynet, features, n_features);
    }
    